package engine

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// How long a message is held whose ordering key is parked, and which is not parked behind it.
const (
	laneRest     = 100 * time.Millisecond
	laneRestMost = 5 * time.Second
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

// keyOrder keeps messages from running ahead of those of their ordering key that are parked.
type keyOrder struct {
	*kernel
	life   *life
	cfg    *Config
	ledger ledger.Parking
}

// newKeyOrder is nil where nobody ever parks. A worker that parks nothing itself heeds what others have parked.
func newKeyOrder(k *kernel, l *life, cfg *Config) *keyOrder {
	keeper, ok := cfg.Ledger.(ledger.Parking)
	if !ok {
		return nil
	}
	return &keyOrder{kernel: k, life: l, cfg: cfg, ledger: keeper}
}

// laneOf is the lane of a run's message, if there is something to ask about it.
func (k *keyOrder) laneOf(r *run) (lane Lane, asked bool) {
	lanes := r.of.lanes
	if r.item != nil {
		lanes = r.item.Lane.Of
	}
	switch {
	case k == nil || lanes == nil || lanes.clear.Load():
		return lane, false
	case r.item != nil:
		lane = r.item.Lane
	default:
		lane = r.of.records.Lane(r.of.from + int(r.at))
	}
	return lane, lane.Of != nil
}

// ask says what follows for a message of a lane, and for how long the first of it waits. While the ledger does not answer nothing begins.
func (k *keyOrder) ask(lane Lane) (flow.LaneStep, time.Duration) {
	step, wait, err := k.asks(lane)
	if err != nil {
		if k.life.gone.Err() == nil {
			k.log.Warn("whether messages of an ordering key are parked cannot be read: it waits", zap.String("lane", string(lane.Of.name(lane.Key))), zap.Error(err))
		}
		return flow.LaneHolds, time.Second
	}
	return step, wait
}

func (k *keyOrder) asks(lane Lane) (step flow.LaneStep, wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(k.life.gone, callTimeout(&k.cfg.Options))
	defer cancel()
	if err := k.load(ctx, lane.Of); err != nil {
		return 0, 0, err
	}
	var since uint64
	lane.Of.change(func(is *flow.Lanes) { step, wait, since = is.Look(k.now(), lane.Key) })
	if step != flow.LaneAsks {
		return step, wait, nil
	}
	s, err := k.ledger.ParkedLane(ctx, lane.Of.scope, lane.Of.name(lane.Key))
	if err != nil {
		return 0, 0, err
	}
	lane.Of.change(func(is *flow.Lanes) { step = is.Heard(k.now(), lane.Key, since, s.Messages, s.Wait) })
	return step, s.Wait, nil
}

// load asks for all lanes of a log of which messages are parked, before the first message of an assignment begins. Where there are more
// than it is told of it asks anew now and then, and whoever comes meanwhile goes by what is known.
func (k *keyOrder) load(ctx context.Context, l *Lanes) error {
	toLoad := func() (since uint64, is bool, first bool) {
		l.change(func(lanes *flow.Lanes) {
			since, is = lanes.ToLoad(k.now())
			first = !lanes.Loaded()
		})
		return since, is, first
	}
	_, is, first := toLoad()
	switch {
	case !is:
		return nil
	case first:
		select {
		case l.loading <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	default:
		select {
		case l.loading <- struct{}{}:
		default:
			return nil
		}
	}
	defer func() { <-l.loading }()
	since, is, _ := toLoad()
	if !is {
		return nil
	}
	names, more, err := k.ledger.ParkedLanes(ctx, l.scope, []byte(l.prefix), ledger.MaxParkedLanes)
	if err != nil {
		return err
	}
	keys := make([]uint64, 0, len(names))
	for _, name := range names {
		var b [keyDigits / 2]byte
		if n, err := hex.Decode(b[:], name[len(l.prefix):min(len(name), len(l.prefix)+keyDigits)]); err == nil && n == len(b) {
			keys = append(keys, binary.BigEndian.Uint64(b[:]))
		}
	}
	l.change(func(lanes *flow.Lanes) { lanes.Load(k.now(), since, keys, more) })
	return nil
}

// waits says whether a run must not begin, since messages before it in its ordering key are parked, and decides what becomes of it:
// it is parked behind them, uncounted, as if its handler had put it off; or it is held, where it cannot be parked, or they will soon be
// over. asked says that the ledger may have been asked, which takes its time: then tooLate is to be asked.
func (h *handlers) waits(c *chunk, r *run) (held, asked bool) {
	lane, asked := h.order.laneOf(r)
	if !asked {
		return false, false
	}
	c.at.Store(int64(h.now()))
	step, wait := h.order.ask(lane)
	if step == flow.LaneRuns {
		return false, true
	}
	it := h.itemOf(r)
	it.complete()
	r.end = &end{step: holding(step, wait)}
	if p := h.parking; step == flow.LaneBehind && p.may(it) {
		dead := h.archives.parked(it)
		if dead.Size() <= p.cfg.Ledger.Limits().Archive && p.follows(it.Key.Scope, dead.Weight()) {
			it.parks()
			r.end.instead, r.end.dead = r.end.step, dead
			r.end.step = behind
			return true, true
		}
	}
	h.parking.isWaitedFor()
	return true, true
}

// tooLate says whether a run may not begin any more, since the worker has paused or drains by now.
func (h *handlers) tooLate(r *run) (is bool) {
	h.do(func(f *flow.Flow, _ time.Duration) {
		if r.item != nil {
			is = !f.MayBegin(&r.item.Item)
		} else {
			is = !f.MayBegin(nil)
		}
	})
	if is {
		r.skip = flow.CalledOff
	}
	return is
}

// behind is the step of a message that is parked behind others: it is theirs when it is due.
var behind = step{settle: ledger.Park, after: time.Microsecond}

// holding is the step of a message that is held until the ledger is asked again.
func holding(is flow.LaneStep, wait time.Duration) step {
	after := laneRest
	if is == flow.LaneBehind || wait > laneRest {
		after = min(max(wait, laneRest), laneRestMost)
	}
	return step{settle: ledger.Release, after: after, narrow: true}
}

// parks marks the lane of an item that is to be parked, until it is let go of.
func (it *Item) parks() {
	if it.Lane.Of == nil {
		return
	}
	it.Lane.Of.change(func(is *flow.Lanes) {
		if !it.marks {
			it.marks = true
			is.Parks(it.Lane.Key)
		}
	})
}

// gone is told when the engine lets go of an item, or gives it back to its broker.
func (it *Item) gone() {
	if it.Lane.Of == nil || it.Lane.Of.clear.Load() {
		return
	}
	it.Lane.Of.change(func(is *flow.Lanes) {
		if it.marks {
			it.marks = false
			is.Parked(it.Lane.Key)
		}
	})
}

// inCare is told when an item's message is found parked.
func (it *Item) inCare() {
	if it.Lane.Of != nil {
		it.Lane.Of.change(func(is *flow.Lanes) { is.Mark(it.Lane.Key) })
	}
}
