package engine

import (
	"encoding/binary"
	"encoding/hex"
	"sync"
	"sync/atomic"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// Lanes are the ordering keys of one assignment of a log, with what is known of those of which messages are parked ([flow.Lanes]). A new
// assignment of the same log has new ones. Goroutines may share it.
type Lanes struct {
	scope  string
	prefix string // of the names of its lanes, before the key

	clear   atomic.Bool   // nothing is parked of any: most of the time
	loading chan struct{} // has something in it while somebody asks for all
	mu      sync.Mutex
	is      flow.Lanes
}

// keyDigits is how long a key is in a lane's name.
const keyDigits = 16

// NewLanes returns those of a log's assignment. Nil: its name is too long for lanes, and nothing of it is parked.
func NewLanes(scope, log string) *Lanes {
	if len(log)+1+keyDigits > ledger.MaxParkLane {
		return nil
	}
	return &Lanes{scope: scope, prefix: log + "/", loading: make(chan struct{}, 1)}
}

// Lane is an item's place in the lane of its ordering key. The zero value is none: without a lane what has an order is never parked.
type Lane struct {
	Of    *Lanes
	Key   uint64 // the key's hash: two keys that meet merely wait for each other
	Place int64  // its offset
}

// parks is where the message is parked; nil: in no lane.
func (l Lane) parks() *ledger.ParkLane {
	if l.Of == nil {
		return nil
	}
	return &ledger.ParkLane{Name: l.Of.name(l.Key), Place: l.Place}
}

func (l *Lanes) name(key uint64) []byte {
	return hex.AppendEncode([]byte(l.prefix), binary.BigEndian.AppendUint64(nil, key))
}

// change lets what is known have an event.
func (l *Lanes) change(event func(is *flow.Lanes)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	event(&l.is)
	l.clear.Store(l.is.Free())
}
