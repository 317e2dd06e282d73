package engine_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// The ledger is away for a minute: no handler starts, nothing is acknowledged, Open says that polling makes no sense,
// and it all goes on by itself afterwards. No attempt and no crash is counted.
func TestPitfall60_LedgerDownForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		net := &link{Ledger: l}
		var began atomic.Int64
		e, b := begin(t, net, options(), func(ctx context.Context, _ *consumer.Message) error {
			began.Add(1)
			select {
			case <-time.After(3 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		in := items(40, noLane)
		e.Offer(in)
		pass(5 * time.Second)
		net.set(down, nil)
		pass(3 * time.Second) // until a call has failed
		before := began.Load()
		changed := e.Changed()
		late := items(60, noLane)[40:]
		e.Offer(late)
		for range 57 {
			pass(time.Second)
			if e.Open() || began.Load() != before {
				t.Fatalf("open %v, %d handlers began in the outage", e.Open(), began.Load()-before)
			}
		}
		acked := 0
		for _, it := range in {
			if b.acked(t, it) {
				acked++
				if state(t, l, it).State != ledger.Succeeded {
					t.Fatalf("message %s was acknowledged in the outage", it.Msg.ID)
				}
			}
		}
		if h := e.Health(); h.Ready || h.LastError == "" || !h.Alive {
			t.Errorf("health %+v", h)
		}
		net.set(nil, nil)
		<-changed
		pass(5 * time.Minute)
		b.wantAcked(t, in...)
		b.wantAcked(t, late...)
		for _, it := range append(in, late...) {
			if rec := state(t, l, it); rec.State != ledger.Succeeded || rec.Attempts != 0 || rec.Crashes != 0 {
				t.Fatalf("message %s: %+v", it.Msg.ID, rec)
			}
		}
		if !e.Open() || !e.Health().Ready {
			t.Error("not open again")
		}
		end(t, e)
	})
}

// The claim is carried out and its answer lost: asked again, it meets its own row, and each message runs once. After the
// call that was lost nothing of it may land any more, so the worker waits for its deadline first.
func TestPitfall08_ClaimAnswerLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		net := &link{Ledger: l}
		var runs atomic.Int64
		e, b := begin(t, net, options(), func(context.Context, *consumer.Message) error { runs.Add(1); return nil })
		lost := 3
		net.set(nil, func(op memory.Op) error {
			if op != memory.Claim || lost == 0 {
				return nil
			}
			lost--
			return errDown
		})
		in := items(20, noLane)
		e.Offer(in)
		pass(time.Minute)
		b.wantAcked(t, in...)
		if runs.Load() != 20 || lost != 0 {
			t.Errorf("%d runs of 20, %d answers still to be lost", runs.Load(), lost)
		}
		for _, it := range in {
			if rec := state(t, l, it); rec.Attempts != 0 || rec.Crashes != 0 {
				t.Errorf("message %s: %+v", it.Msg.ID, rec)
			}
		}
		end(t, e)
	})
}

func TestLostAnswersOfOtherCalls(t *testing.T) {
	for _, op := range []memory.Op{memory.Settle, memory.Beat, memory.Join, memory.Leave} {
		t.Run(string(op), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := memory.New()
				net := &link{Ledger: l}
				n := 0
				net.set(nil, func(o memory.Op) error {
					if n++; o == op && n%3 != 0 {
						return errDown
					}
					return nil
				})
				runs := 0
				e, b := begin(t, net, options(), func(_ context.Context, m *consumer.Message) error {
					if runs++; m.Attempt < 3 {
						return errBoom
					}
					return nil
				})
				it := item("one", "")
				e.Offer([]*engine.Item{it})
				pass(time.Minute)
				b.wantAcked(t, it)
				if rec := state(t, l, it); runs != 3 || rec.Attempts != 2 || rec.State != ledger.Succeeded {
					t.Errorf("%d runs, %+v", runs, rec)
				}
				end(t, e)
			})
		})
	}
}

// A claim's answer is lost, and then its copy goes: the broker has it back. Whatever fails afterwards, the row that may
// be ours is asked for until it is known, and released: nobody finds it busy for ever.
func TestPitfall114_CopyGoneAfterLostAnswer(t *testing.T) {
	for _, c := range []struct {
		name string
		then error // what the next claims answer, for a while
	}{
		{"then it works", nil},
		{"then it refuses connections", errDown},
		{"then more answers are lost", ledger.MarkUnknown(errDown)},
	} {
		for _, when := range []time.Duration{time.Millisecond, 3 * time.Second, 5 * time.Second} {
			t.Run(c.name+" "+when.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := memory.New()
					net := &link{Ledger: l}
					ran := false
					e, b := begin(t, net, options(), func(context.Context, *consumer.Message) error { ran = true; return nil })
					first := true
					net.set(func(op memory.Op) error {
						if op == memory.Claim && !first {
							return c.then
						}
						return nil
					}, func(op memory.Op) error {
						if op == memory.Claim && first {
							first = false
							return errDown
						}
						return nil
					})
					it := item("one", "")
					e.Offer([]*engine.Item{it})
					pass(when)
					<-e.Drop(func(*engine.Item) bool { return true }, time.Second)
					v, ok := b.verdict(t, it)
					if !ok || v.Ack && !ran {
						t.Fatalf("finished %v, %+v", ok, v)
					}
					pass(20 * time.Second)
					net.set(nil, nil)
					pass(20 * time.Second)
					if rec := state(t, l, it); rec.Owner != "" {
						t.Errorf("the row is still %s's", rec.Owner)
					}
					if e.Load().Held != 0 {
						t.Errorf("still held: %+v", e.Load())
					}
					end(t, e)
				})
			})
		}
	}
}

// An unknown commit leaves a message that may be ours; its copy goes while the engine waits to ask. It is asked for all
// the same.
func TestPitfall114_CopyGoneAfterUnknownCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		net := &link{Ledger: l}
		e, b := begin(t, net, options(), func(ctx context.Context, _ *consumer.Message) error {
			a, _ := ledger.AttemptFrom(ctx)
			if err := a.Begin(); err != nil {
				return err
			}
			a.End(ledger.AttemptUnknown, errDown)
			return errDown
		})
		it := item("one", "")
		asked := 0
		net.set(func(op memory.Op) error {
			if op == memory.Claim {
				if asked++; asked > 1 && asked < 4 {
					return errDown
				}
			}
			return nil
		}, nil)
		e.Offer([]*engine.Item{it})
		synctest.Wait() // the handler has ended; the engine waits to ask again
		if rec := state(t, l, it); rec.Owner == "" {
			t.Fatal("the row is nobody's: nothing is tested")
		}
		<-e.Drop(func(*engine.Item) bool { return true }, time.Minute)
		b.wantKept(t, it)
		pass(time.Minute)
		if rec := state(t, l, it); rec.Owner != "" || asked < 4 || e.Load().Held != 0 {
			t.Errorf("the row is %q's after %d claims, load %+v", rec.Owner, asked, e.Load())
		}
		end(t, e)
	})
}

// A release that was given up arrives late, after the same worker claimed the message again: it changes nothing, the
// second run is settled under its own token.
func TestPitfall115_LateRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		var late func()
		spy := &delaying{Ledger: l, late: &late}
		runs := 0
		e, b := begin(t, spy, options(), func(context.Context, *consumer.Message) error {
			if runs++; runs == 1 {
				return consumer.RetryAfter(errBoom, 0)
			}
			late() // the first release lands now
			return nil
		})
		it := item("one", "")
		e.Offer([]*engine.Item{it})
		pass(time.Minute)
		b.wantAcked(t, it)
		if rec := state(t, l, it); runs != 2 || rec.State != ledger.Succeeded || rec.Attempts != 1 || rec.Token < 2 {
			t.Errorf("%d runs, %+v", runs, rec)
		}
		end(t, e)
	})
}

// delaying keeps the first release for later, answers it with an unknown error, and lets its repetition through.
type delaying struct {
	ledger.Ledger
	late *func()
}

func (d *delaying) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o, err := d.Ledger.Join(ctx, lease)
	return &delayingOwner{o, d}, err
}

type delayingOwner struct {
	ledger.Owner
	d *delaying
}

func (o *delayingOwner) Settle(ctx context.Context, s []ledger.Settlement) ([]error, error) {
	if *o.d.late == nil && s[0].Kind == ledger.Release {
		*o.d.late = func() { _, _ = o.Owner.Settle(context.Background(), s) }
		return nil, ledger.MarkUnknown(errDown)
	}
	return o.Owner.Settle(ctx, s)
}

// An archive over the ledger's limit (it was raised at the broker later), of a broker that keeps nothing: the message is not
// acknowledged, it is reported, it does not run again, and the others go on.
func TestPitfall92_ArchiveOverTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := ledger.DefaultLimits
		limits.Archive = 100
		l := memory.New(memory.WithLimits(limits))
		runs := 0
		e, b := begin(t, l, options(), func(_ context.Context, m *consumer.Message) error {
			if m.ID == "big" {
				runs++
				return consumer.Terminal(errBoom)
			}
			return nil
		})
		big := item("big", "")
		big.Original = func(*engine.Item) engine.Content { return engine.Content{Body: make([]byte, 101)} }
		in := items(50, noLane)
		e.Offer(append([]*engine.Item{big}, in...))
		pass(10 * time.Minute)
		b.wantAcked(t, in...)
		if v, ok := b.verdict(t, big); ok {
			t.Fatalf("the message was let go of: %+v", v)
		}
		if rec := state(t, l, big); rec.State != ledger.Pending || rec.Owner == "" || len(rec.Archived) != 0 || runs != 1 {
			t.Errorf("%d runs, %+v", runs, rec)
		}
		if !e.Open() {
			t.Error("one message stopped the worker")
		}
		pass(time.Hour) // longer than the longest backoff
		if h := e.Health(); runs != 1 || len(h.Stalled) != 1 || h.Stalled[0].What != "big" || !strings.Contains(h.Stalled[0].Why, "0 to 100 bytes") {
			t.Errorf("%d runs, %+v", runs, h)
		}
		end(t, e)
		b.wantKept(t, big)
		if rec := state(t, l, big); rec.Owner != "" {
			t.Errorf("it is not given back: %+v", rec)
		}
	})
}

// A settle call that is refused as a whole because the owner is dead: the session is over at once, not at the next beat.
func TestSettleThatSaysLostEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		net := &link{Ledger: l}
		runs := 0
		e, b := begin(t, net, options(), func(context.Context, *consumer.Message) error {
			if runs++; runs == 1 {
				l.Declare(net.owner())
				net.set(only(memory.Settle, ledger.ErrLost), nil)
			} else {
				net.set(nil, nil)
			}
			return nil
		})
		it := item("one", "")
		e.Offer([]*engine.Item{it})
		pass(time.Second)
		b.wantAcked(t, it)
		if rec := state(t, l, it); runs != 2 || rec.State != ledger.Succeeded || rec.Token != 2 {
			t.Errorf("%d runs, %+v", runs, rec)
		}
		end(t, e)
	})
}
