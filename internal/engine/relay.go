package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// A relay takes one lane of the outbox after the other, and sends what lies in it, batch by batch: what was sent before is removed with the
// question for what is next. A turn at a lane is short, so that the lanes of all targets get on, whoever has many messages.

// relayTurn is how long a lane is sent before others get their turn.
const relayTurn = time.Second

// relayCount is how often what waits is counted.
const relayCount = 10 * time.Second

// Relay sends what was published.
type Relay struct {
	*sender
	box   ledger.Outbox
	names []string
	looks chan struct{}  // has a place for who looks for a lane
	away  map[string]int // outages of a target, one after the other; the sender's lock guards it
	later laterDues      // of the lanes
}

// NewRelay makes a relay for a ledger that is an [ledger.Outbox].
func NewRelay(l ledger.Ledger, cfg consumer.Relay) (*Relay, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, err
	}
	box, ok := l.(ledger.Outbox)
	if !ok {
		return nil, fmt.Errorf("consumer: Relay: %w (%T)", ledger.ErrNoOutbox, l)
	}
	r := &Relay{sender: newSender(l, cfg), box: box, names: slices.Sorted(maps.Keys(cfg.Targets)), away: map[string]int{},
		looks: make(chan struct{}, 1), later: laterDues{next: map[ledger.Lane]time.Time{}}}
	if r.tel, err = newRelayMeters(cfg.MeterProvider, r.names); err != nil {
		return nil, err
	}
	return r, nil
}

// relayOf makes a worker's relay; nil: it has none.
func relayOf(l ledger.Ledger, o *consumer.Options) (*Relay, error) {
	if o.Relay == nil {
		return nil, nil
	}
	cfg := *o.Relay
	cfg.Logger, cfg.MeterProvider = cmp.Or(cfg.Logger, o.Logger), cmp.Or(cfg.MeterProvider, o.MeterProvider)
	if cfg.Cipher == nil {
		cfg.Cipher = o.Cipher
	}
	return NewRelay(l, cfg)
}

// Run relays until ctx ends, and returns once the last batch has. It goes on after outages; only a ledger without an outbox
// ([ledger.ErrNoOutbox]) ends it.
func (r *Relay) Run(ctx context.Context) error {
	part, end := context.WithCancelCause(ctx)
	defer end(nil)
	var loops sync.WaitGroup
	for range r.cfg.Parallel {
		loops.Go(func() {
			for {
				lane, err := r.look(part)
				if err != nil {
					end(err)
					return
				}
				r.turn(part, lane)
			}
		})
	}
	loops.Go(func() { r.count(part) })
	loops.Wait()
	if err := context.Cause(part); errors.Is(err, ledger.ErrNoOutbox) {
		return err
	}
	return nil
}

// Close ends what the relay tells.
func (r *Relay) Close() { r.tel.close() }

// look waits for a lane in which something lies. One looks at a time, so that an idle process asks no more often than its Interval says. Its
// error is that of ctx, or [ledger.ErrNoOutbox].
func (r *Relay) look(ctx context.Context) (ledger.Lane, error) {
	select {
	case r.looks <- struct{}{}:
		defer func() { <-r.looks }()
	case <-ctx.Done():
	}
	for failed := 0; ctx.Err() == nil; {
		lane, ok, err := r.box.TakeLane(ctx, r.names, r.cfg.Lease)
		switch {
		case errors.Is(err, ledger.ErrNoOutbox):
			return lane, err
		case err != nil:
			failed++
			if failed == 1 && ctx.Err() == nil {
				r.cfg.Logger.Warn("the outbox cannot be read", zap.Error(err))
			}
			Sleep(ctx, outage(failed))
		case ok:
			return lane, nil
		default:
			failed = 0
			Sleep(ctx, r.cfg.Interval/2+rand.N(r.cfg.Interval))
		}
	}
	return ledger.Lane{}, ctx.Err()
}

// turn sends what lies in a lane, until it is empty, the turn is over or the target is away.
func (r *Relay) turn(ctx context.Context, lane ledger.Lane) {
	var report ledger.LaneReport
	later := undue{next: r.later.of(lane)}
	defer func() { r.later.note(lane, later.next) }()
	rest := time.Duration(0)
	for began := time.Now(); ; later.sent = true {
		next, err := r.box.NextOutgoing(ctx, lane, r.cfg.Lease, report, r.cfg.Batch, r.cfg.BatchBytes)
		if err != nil {
			r.leave(ctx, lane, report, r.cfg.Interval, err)
			return
		}
		if len(next) == 0 {
			report, rest = ledger.LaneReport{}, later.rest(r.cfg.Interval, time.Now())
			break
		}
		b := &relayed{sender: r.sender, lane: lane, until: began.Add(relayTurn)}
		b.send(ctx, next)
		report = b.report
		later.put(report.Failed, time.Now())
		if rest = r.heard(lane.Target, b); b.outage || b.stuck || ctx.Err() != nil || time.Since(began) > relayTurn {
			break
		}
	}
	r.leave(ctx, lane, report, rest, nil)
}

// leaveTries is how often a report is tried to be written. What was sent is sent again if it is not.
const leaveTries = 5

// leave gives a lane back. failed is why the question for what is next got no answer; nil: it was not asked.
func (r *Relay) leave(ctx context.Context, lane ledger.Lane, report ledger.LaneReport, rest time.Duration, failed error) {
	for n := 1; n <= leaveTries && !ledger.IsLost(failed); n++ {
		if failed != nil && !Sleep(ctx, outage(n)) {
			n = leaveTries // the last try
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxCall)
		failed = r.box.LeaveLane(last, lane, report, rest)
		cancel()
		if failed == nil {
			return
		}
	}
	r.cfg.Logger.Warn("a report to the outbox got no answer, or its lane is another's: what was sent may be sent again",
		zap.String("target", lane.Target), zap.Int("shard", lane.Shard), zap.Int("messages", len(report.Done)), zap.Error(failed))
}

// heard notes whether a target is away, and says how long its lane rests.
func (r *Relay) heard(target string, b *relayed) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.away[target]
	if !b.outage && !b.stuck {
		if was > 0 && len(b.report.Done) > 0 {
			r.cfg.Logger.Info("the target of the outbox is there again", zap.String("target", target))
			delete(r.away, target)
		}
		return 0
	}
	if was == 0 {
		r.cfg.Logger.Warn("the target of the outbox is away", zap.String("target", target), zap.Error(b.cause))
	}
	r.away[target]++
	if b.stuck {
		return r.cfg.Lease // a call has not returned: nobody sends what may come behind it
	}
	return publishing.Ceiling(min(was+1, 20))/2 + publishing.Delay(min(was+1, 20), rand.Float64())/2
}

// count says now and then how much waits.
func (r *Relay) count(ctx context.Context) {
	for rest := time.Duration(0); Sleep(ctx, rest); {
		began := time.Now()
		all, err := r.box.OutboxStats(ctx)
		if err == nil {
			r.tel.counted(all)
		} else if ctx.Err() == nil && !errors.Is(err, ledger.ErrNoOutbox) {
			r.cfg.Logger.Warn("what waits in the outbox cannot be counted", zap.Error(err))
		}
		rest = max(relayCount, weighShare*time.Since(began))
	}
}
