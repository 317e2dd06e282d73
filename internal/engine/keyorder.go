package engine

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"sync"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// keyOrder keeps messages from running ahead of those of their ordering key that are parked.
type keyOrder struct {
	*kernel
	life   *life
	cfg    *Config
	ledger ledger.Parking
	warned sync.Once // that NoParking holds what is behind parked messages
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
