package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// Two workers have the same messages in lanes of opposite order (a rebalance under way): each holds what the other's head
// waits for. Behind a head that waits nothing stays claimed, so both go on.
func TestPitfall105_LaneDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		var mu sync.Mutex
		runs := map[string]int{}
		h := func(_ context.Context, m *consumer.Message) error {
			mu.Lock()
			defer mu.Unlock()
			runs[m.ID]++
			return nil
		}
		a, ab := begin(t, l, options(), h)
		b, bb := begin(t, l, options(), h)
		var first, second []*engine.Item
		var third ledger.Owner
		for i := range 2 { // few, so that a claim takes whole lanes
			lane, x, y := fmt.Sprint("lane ", i), fmt.Sprint("x", i), fmt.Sprint("y", i)
			first = append(first, item(x, lane), item(y, lane))
			second = append(second, item(y, lane), item(x, lane))
		}
		third = holdElsewhere(t, l, first[0])
		for i := 2; i < len(first); i += 2 {
			entry := ledger.Entry{Key: first[i].Key, Fingerprint: first[i].Fingerprint, Delivery: first[i].Delivery, Window: time.Hour}
			if _, err := third.Claim(t.Context(), []ledger.Entry{entry}); err != nil {
				t.Fatal(err)
			}
		}
		// The third has every x: the first worker's heads wait, and it wins the y behind them. Then the third leaves, and
		// the second worker wins every x behind its own heads, the y.
		a.Offer(first)
		synctest.Wait()
		if err := third.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.Offer(second)
		pass(time.Minute)
		ab.wantAcked(t, first...)
		bb.wantAcked(t, second...)
		for id, n := range runs {
			if n != 1 {
				t.Errorf("message %s ran %d times", id, n)
			}
		}
		end(t, a)
		end(t, b)
	})
}

// holdElsewhere claims a message for another worker, which keeps its lease for an hour.
func holdElsewhere(t *testing.T, l *memory.Ledger, it *engine.Item) ledger.Owner {
	t.Helper()
	o, err := l.Join(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	entry := ledger.Entry{Key: it.Key, Fingerprint: it.Fingerprint, Delivery: it.Delivery, Window: time.Hour}
	if c, err := o.Claim(t.Context(), []ledger.Entry{entry}); err != nil || c[0].Answer != ledger.Run {
		t.Fatalf("claim: %+v, %v", c, err)
	}
	return o
}

// The head of a lane is busy elsewhere: what was claimed behind it is released at once, for whoever can run it.
func TestBusyHeadReleasesWhatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		e, b := begin(t, l, options(), func(context.Context, *consumer.Message) error { return nil })
		in := items(10, func(int) string { return "lane" })
		other := holdElsewhere(t, l, in[0])
		e.Offer(in)
		pass(time.Minute)
		if load := e.Load(); load.Held != 10 || load.Waiting != 1 {
			t.Errorf("%+v", load)
		}
		for _, it := range in[1:] {
			if rec, err := l.Get(t.Context(), it.Key); err == nil && rec.Owner != "" {
				t.Errorf("message %s is held behind a head that waits", it.Msg.ID)
			}
		}
		if err := other.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		pass(15 * time.Second)
		b.wantAcked(t, in...)
		end(t, e)
	})
}

// The same key twice in one poll: one Run; the other copy is held, and Done after it. In one lane, in two, and in none.
func TestPitfall12_SameKeyTwice(t *testing.T) {
	for _, lanes := range [][2]string{{"", ""}, {"a", "a"}, {"a", "b"}, {"", "a"}} {
		t.Run(fmt.Sprint(lanes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := memory.New()
				runs, together := 0, 0
				e, b := begin(t, l, options(), func(_ context.Context, m *consumer.Message) error {
					runs++
					if together++; together > 1 {
						t.Error("two handlers of one key at once")
					}
					time.Sleep(time.Second)
					together--
					if m.Attempt == 1 {
						return errBoom
					}
					return nil
				})
				in := []*engine.Item{item("one", lanes[0]), item("one", lanes[1]), item("one", lanes[0])}
				e.Offer(in)
				pass(time.Minute)
				b.wantAcked(t, in...)
				if rec := state(t, l, in[0]); runs != 2 || rec.Attempts != 1 || rec.State != ledger.Succeeded {
					t.Errorf("%d runs, %+v", runs, rec)
				}
				end(t, e)
			})
		})
	}
}

// A slow handler at the head of a lane, with much claimed behind it, keeps no free handler from other messages.
func TestSlowLaneLeavesTheOtherHandlersFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		e, b := begin(t, l, options(), func(ctx context.Context, m *consumer.Message) error {
			if m.Group != "" {
				select {
				case <-time.After(time.Hour):
				case <-ctx.Done():
				}
			}
			return ctx.Err()
		})
		slow := items(500, func(int) string { return "slow" })
		for _, it := range slow {
			it.Msg.Group = "slow"
		}
		e.Offer(slow)
		pass(time.Second)
		var fast []*engine.Item
		for i := range 100 {
			fast = append(fast, item(fmt.Sprint("fast ", i), []string{"", "other"}[i%2]))
		}
		e.Offer(fast)
		pass(time.Second)
		b.wantAcked(t, fast...)
		if err := e.Drain(t.Context()); err != nil {
			t.Logf("drain: %v", err) // the slow one
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A claim of the heads fails, a later one of what is behind them succeeds: what is claimed behind does not use up the
// allowance for good.
func TestFailedClaimOfHeadsIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		n := 0
		net := &link{Ledger: l}
		o := options()
		o.Concurrency, o.ClaimAhead = 1, 1000
		e, b := begin(t, net, o, func(context.Context, *consumer.Message) error { return nil })
		warm := make([]*engine.Item, 2000) // claims run far ahead
		for i := range warm {
			warm[i] = item(fmt.Sprint("warm ", i), "")
		}
		e.Offer(warm)
		pass(100 * time.Millisecond)
		net.set(func(op memory.Op) error {
			if op == memory.Claim {
				if n++; n%2 == 1 {
					return errDown
				}
			}
			return nil
		}, nil)
		in := items(3000, func(i int) string { return fmt.Sprint(i % 50) })
		for chunk := range slices.Chunk(in, 100) {
			e.Offer(chunk)
			pass(time.Millisecond)
		}
		pass(10 * time.Minute)
		b.wantAcked(t, in...)
		end(t, e)
	})
}

// A suspect heads a lane: it runs alone, then the lane goes on, in order.
func TestSuspectHeadsALane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		in := items(5, func(int) string { return "lane" })
		for range ledger.SuspectCrashes {
			l.Declare(holdElsewhere(t, l, in[0]).ID())
		}
		var order []string
		e, b := begin(t, l, options(), func(_ context.Context, m *consumer.Message) error {
			if order = append(order, m.ID); len(order) < 3 {
				return errBoom
			}
			return nil
		})
		e.Offer(in)
		pass(time.Minute)
		b.wantAcked(t, in...)
		if fmt.Sprint(order) != "[m00000 m00000 m00000 m00001 m00002 m00003 m00004]" {
			t.Errorf("order %v", order)
		}
		end(t, e)
	})
}

// A suspect runs beside normal work, not instead of it, also with one handler only and with Park.
func TestSuspectRunsBesideNormalWork(t *testing.T) {
	for _, park := range []bool{false, true} {
		t.Run(fmt.Sprint("park ", park), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := memory.New()
				o := options()
				o.Concurrency, o.Park = 1, park
				odd := item("suspect", "")
				for range ledger.SuspectCrashes {
					owner := holdElsewhere(t, l, odd)
					l.Declare(owner.ID())
				}
				if park { // released once: no attempt is under way, Park runs it
					owner, err := l.Join(t.Context(), time.Hour)
					if err != nil {
						t.Fatal(err)
					}
					entry := ledger.Entry{Key: odd.Key, Fingerprint: odd.Fingerprint, Delivery: odd.Delivery, Window: time.Hour, Solo: true}
					c, err := owner.Claim(t.Context(), []ledger.Entry{entry})
					if err != nil {
						t.Fatal(err)
					}
					if _, err := owner.Settle(t.Context(), []ledger.Settlement{{Ticket: c[0].Ticket, Kind: ledger.Release}}); err != nil {
						t.Fatal(err)
					}
				}
				e, b := begin(t, l, o, func(ctx context.Context, m *consumer.Message) error {
					if m.ID == "suspect" {
						time.Sleep(time.Minute)
					}
					return nil
				})
				e.Offer([]*engine.Item{odd})
				pass(time.Second)
				if load := e.Load(); load.Running != 1 {
					t.Fatalf("the suspect does not run: %+v", load)
				}
				in := items(50, noLane)
				e.Offer(in)
				pass(time.Second)
				b.wantAcked(t, in...)
				pass(time.Minute)
				b.wantAcked(t, odd)
				end(t, e)
			})
		})
	}
}
