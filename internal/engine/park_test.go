package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger/memory"
)

// Under Park what is claimed and does not begin is given back at once: were it ours when this process dies, or the lease
// ends, it would be archived as uncertain though no handler has seen it.
func TestParkedIsNobodysInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		net := &link{Ledger: l}
		o := options()
		o.Park = true
		var ran atomic.Int64
		e, b := begin(t, net, o, func(context.Context, *consumer.Message) error { ran.Add(1); return nil })
		net.set(nil, func(op memory.Op) error {
			if op == memory.Claim {
				e.Pause()
			}
			return nil
		})
		in := items(3, noLane)
		e.Offer(in)
		pass(time.Minute)
		for _, it := range in {
			if rec := state(t, l, it); ran.Load() > 0 || rec.Owner != "" || rec.Attempts != 0 {
				t.Errorf("%d ran; %+v", ran.Load(), rec)
			}
		}
		net.set(nil, nil)
		e.Resume()
		pass(time.Minute)
		b.wantAcked(t, in...)
		end(t, e)
	})
}

// So are the messages of a batch that came to nothing, which run alone: those that wait for that when the pause begins, and
// those that would begin to.
func TestParkedBatchThatComesToNothingInAPause(t *testing.T) {
	for name, pauseIn := range map[string]int64{"while it runs": 1, "while the first runs alone": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { pauseInCall(t, pauseIn) })
		})
	}
}

func pauseInCall(t *testing.T, pauseIn int64) {
	l := memory.New()
	o := options()
	o.Park, o.Concurrency = true, 1
	entered, leave := make(chan struct{}), make(chan struct{})
	var calls, handled atomic.Int64
	e, b := begin(t, l, o, nil, func(c *engine.Config) {
		c.Handler = consumer.Batch(3, func(_ context.Context, batch []*consumer.Message) []error {
			call := calls.Add(1)
			if call == pauseIn {
				close(entered)
				<-leave
			}
			if call == 1 {
				panic("a batch that comes to nothing")
			}
			handled.Add(int64(len(batch)))
			return nil
		})
	})
	in := items(3, noLane)
	e.Offer(in)
	<-entered
	e.Pause()
	close(leave)
	pass(time.Minute)
	owned := 0
	for _, it := range in {
		if state(t, l, it).Owner != "" {
			owned++
		}
	}
	if owned > 0 || calls.Load() != pauseIn || handled.Load() != pauseIn-1 {
		t.Errorf("%d calls, %d messages handled, %d are owned in the pause", calls.Load(), handled.Load(), owned)
	}
	e.Resume()
	pass(time.Minute)
	b.wantAcked(t, in...)
	if handled.Load() != 3 {
		t.Errorf("%d messages handled, want 3", handled.Load())
	}
	end(t, e)
}
