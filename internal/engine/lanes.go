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
	shared bool   // nothing is known of any

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

// NewSharedLanes returns those of a queue, of which others park as well at any time, as the queue gives each message to anyone: so the
// ledger is asked about each message before it begins. Nil: its name is too long for lanes.
func NewSharedLanes(scope, queue string) *Lanes {
	l := NewLanes(scope, queue)
	if l != nil {
		l.shared = true
		l.change((*flow.Lanes).Share)
	}
	return l
}

// KeyHash is FNV-1a.
func KeyHash(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range key {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// Lane is an item's place in the lane of its ordering key. The zero value is none: without a lane what has an order is never parked.
type Lane struct {
	Of    *Lanes
	Key   uint64 // its KeyHash: two keys that meet merely wait for each other
	Place int64  // its offset; or ledger.PlaceLast, if others of its key begin only once it is parked
}

// marked says whether what is parked of the lane is to be marked.
func (l Lane) marked() bool { return l.Of != nil && !l.Of.shared }

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
