package engine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
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

// A payment was cut short. While its archive could not be sealed, its worker was deployed anew, or its broker took it back: it was
// released as if nothing had happened, and the next worker made the payment again.
func TestPitfall143_ParkedWhileTheCipherIsAway(t *testing.T) {
	for name, gives := range map[string]struct{ drop, drain bool }{
		"a drain": {drain: true}, "its broker": {drop: true}, "its broker, then a drain": {drop: true, drain: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, o := memory.New(), options()
				var away atomic.Bool
				away.Store(true)
				o.Park, o.Cipher = true, mirror{broken: func() error {
					if away.Load() {
						return errors.New("no key")
					}
					return nil
				}}
				runs := 0
				pay := func(p *process, _ context.Context, _ *consumer.Message) error {
					if runs++; runs == 1 {
						p.kill()
					}
					return nil
				}
				first := spawn(t, l, o, pay)
				first.Offer([]*engine.Item{item("payment", "")})
				pass(time.Hour)
				first.bury(t)

				second, it := spawn(t, l, o, pay), item("payment", "")
				second.Offer([]*engine.Item{it})
				pass(time.Minute)
				if gives.drop {
					second.Drop(func(o *engine.Item) bool { return o == it }, 0)
				}
				if gives.drain {
					end(t, second.Engine)
				}
				pass(time.Hour)

				away.Store(false)
				third, again := spawn(t, l, o, pay), item("payment", "")
				third.Offer([]*engine.Item{again})
				pass(time.Hour)
				third.wantAcked(t, again)
				rec := state(t, l, again)
				if runs != 1 || rec.State != ledger.Failed || rec.Archived[0].Kind != ledger.KindUncertain {
					t.Errorf("%d runs, %+v", runs, rec)
				}
				end(t, third.Engine)
				if !gives.drain {
					end(t, second.Engine)
				}
			})
		})
	}
}
