package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// lockable answers Busy, without a reason, while rows are locked, as SQL stores do while another transaction holds the
// row: perhaps our own claim's or InTx's, whose COMMIT is still on its way.
type lockable struct {
	ledger.Ledger
	locked atomic.Bool
	only   string                     // the message whose row is locked; empty: all
	busy   atomic.Int64               // answers
	answer func([]ledger.Entry) error // how a claim ends: not at all, unless nil or unknown
}

type lockableOwner struct {
	ledger.Owner
	l *lockable
}

func (l *lockable) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o, err := l.Ledger.Join(ctx, lease)
	if err != nil {
		return nil, err
	}
	return &lockableOwner{o, l}, nil
}

func (o *lockableOwner) Claim(ctx context.Context, entries []ledger.Entry) ([]ledger.Claim, error) {
	if o.l.locked.Load() && (o.l.only == "" || o.l.only == string(entries[0].Key.ID)) {
		o.l.busy.Add(int64(len(entries)))
		return make([]ledger.Claim, len(entries)), nil
	}
	var err error
	if o.l.answer != nil {
		err = o.l.answer(entries)
	}
	if err != nil && !ledger.Unknown(err) {
		return nil, err
	}
	claims, failed := o.Owner.Claim(ctx, entries)
	if failed != nil {
		return nil, failed
	}
	return claims, err
}

// A claim's answer is lost while its COMMIT hangs in the database; asked again, the row is locked. That is no answer: the
// message may be ours all the same. Its copy goes, the COMMIT lands: the row is released in the end.
func TestPitfall114_LockedIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		net := &link{Ledger: l}
		store := &lockable{Ledger: net}
		e, b := begin(t, store, options(), func(context.Context, *consumer.Message) error { return nil })
		net.set(nil, func(op memory.Op) error {
			if op != memory.Claim {
				return nil
			}
			store.locked.Store(true)
			return errDown
		})
		it := item("one", "")
		e.Offer([]*engine.Item{it})
		synctest.Wait()
		net.set(nil, nil)
		e.Drop(everything, time.Second)
		pass(20 * time.Second)
		b.wantKept(t, it)
		if store.busy.Load() == 0 || state(t, l, it).Owner == "" {
			t.Fatal("the row was not locked while it was ours: nothing is tested")
		}
		store.locked.Store(false)
		pass(20 * time.Second)
		if rec := state(t, l, it); rec.Owner != "" || e.Load().Held != 0 {
			t.Errorf("the row is %q's, load %+v", rec.Owner, e.Load())
		}
		end(t, e)
	})
}

// What may be ours and has lost its copy is asked for whatever else keeps claims back: a pause, or handlers that take all
// day. Else the row would be busy for the others as long as that.
func TestPitfall114_AskedForInAnyCase(t *testing.T) {
	for _, why := range []string{"paused", "busy"} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := memory.New()
				var asked atomic.Int64
				var healed atomic.Bool
				store := &lockable{Ledger: l, answer: func(entries []ledger.Entry) error {
					if healed.Load() || string(entries[0].Key.ID) != "one" {
						return nil
					}
					if asked.Add(1) == 1 {
						return ledger.MarkUnknown(errDown) // lost
					}
					return errDown // then there is no connection for a while
				}}
				o := options()
				o.ClaimAhead, o.Concurrency = 4, 4
				free := make(chan struct{})
				e, b := begin(t, store, o, func(_ context.Context, m *consumer.Message) error {
					if m.ID != "one" {
						<-free
					}
					return nil
				})
				it := item("one", "")
				e.Offer([]*engine.Item{it})
				synctest.Wait()
				if why == "paused" {
					e.Pause()
				} else {
					e.Offer(items(8, noLane)) // they take all handlers
				}
				pass(3 * time.Second)
				if load := e.Load(); asked.Load() < 2 || why != "paused" && load.Running != 4 {
					t.Errorf("asked %d times, %+v: nothing is tested", asked.Load(), load)
				}
				<-e.Drop(func(i *engine.Item) bool { return i == it }, time.Second)
				healed.Store(true)
				pass(time.Minute)
				b.wantKept(t, it)
				if rec := state(t, l, it); rec.Owner != "" {
					t.Errorf("the row is still %s's, load %+v", rec.Owner, e.Load())
				}
				e.Resume()
				close(free)
				end(t, e)
			})
		})
	}
}

// A suspect may be ours, and has lost its copy: it is asked for and released, since it needs no place to run in. Then the next
// one has the place.
func TestPitfall114_SuspectIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		it := item("one", "")
		for range ledger.SuspectCrashes {
			o, err := l.Join(t.Context(), time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			entry := ledger.Entry{Key: it.Key, Fingerprint: it.Fingerprint, Delivery: it.Delivery, Window: time.Hour}
			if c, err := o.Claim(t.Context(), []ledger.Entry{entry}); err != nil || c[0].Answer != ledger.Run {
				t.Fatal(c, err)
			}
			l.Declare(o.ID())
		}
		var asked atomic.Int64
		var healed atomic.Bool
		store := &lockable{Ledger: l, answer: func(entries []ledger.Entry) error {
			switch {
			case healed.Load() || !entries[0].Solo:
				return nil
			case asked.Add(1) == 1:
				return ledger.MarkUnknown(errDown)
			}
			return errDown
		}}
		place := consumer.NewLimiter(1)
		e, b := begin(t, store, options(), func(context.Context, *consumer.Message) error { return nil },
			func(c *engine.Config) { c.Suspects = place })
		e.Offer([]*engine.Item{it})
		pass(3 * time.Second)
		pass(time.Second)
		<-e.Drop(everything, time.Second)
		healed.Store(true)
		pass(time.Minute)
		b.wantKept(t, it)
		if rec := state(t, l, it); rec.Owner != "" || asked.Load() < 2 {
			t.Errorf("the row is %q's after %d claims, load %+v", rec.Owner, asked.Load(), e.Load())
		}
		if err := place.Acquire(t.Context()); err != nil {
			t.Error(err)
		}
		end(t, e)
	})
}

// A suspect whose claim has no answer, and whose row is locked when it is asked for again, may be ours: it keeps its place. If
// the next one ran, and killed the process, the first would count a crash for it (found by make model).
func TestPitfall114_DoubtKeepsThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		one, two := item("one", ""), item("two", "")
		crashTwice(t, l, one)
		crashTwice(t, l, two)
		before := state(t, l, two)
		store := &lockable{Ledger: l, only: "one"}
		store.answer = func(entries []ledger.Entry) error {
			if !entries[0].Solo || string(entries[0].Key.ID) != "one" || store.busy.Load() > 0 {
				return nil
			}
			store.locked.Store(true)
			return ledger.MarkUnknown(errDown)
		}
		var ran atomic.Int64
		e, b := begin(t, store, options(), func(context.Context, *consumer.Message) error { ran.Add(1); return nil })
		e.Offer([]*engine.Item{one, two})
		pass(time.Minute)
		if rec := state(t, l, two); ran.Load() != 0 || store.busy.Load() < 2 || rec.Token != before.Token {
			t.Errorf("%d handlers began, asked %d times in vain, the next suspect is %+v; want it as it was: %+v",
				ran.Load(), store.busy.Load(), rec, before)
		}
		store.locked.Store(false)
		pass(time.Minute)
		b.wantAcked(t, one, two)
		if crashes := state(t, l, one).Crashes; crashes != 2 {
			t.Errorf("%d crashes", crashes)
		}
		end(t, e)
	})
}

// A message is suspect, and the first claim of it, like any other's, has no answer; its copy goes. Who asks for it alone now
// would take it, beside a suspect that may kill the process (found by make model). It was not taken, or it would not be suspect.
func TestPitfall114_NeverAskedForAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		it := item("one", "")
		crashTwice(t, l, it)
		before := state(t, l, it)
		var asked atomic.Int64
		var healed atomic.Bool
		store := &lockable{Ledger: l, answer: func([]ledger.Entry) error {
			switch n := asked.Add(1); {
			case healed.Load():
				return nil
			case n == 1:
				return ledger.MarkUnknown(errDown)
			}
			return errDown
		}}
		e, b := begin(t, store, options(), func(context.Context, *consumer.Message) error { return nil })
		e.Offer([]*engine.Item{it})
		pass(3 * time.Second)
		<-e.Drop(everything, time.Second)
		down := asked.Load()
		healed.Store(true)
		pass(time.Minute)
		b.wantKept(t, it)
		if rec := state(t, l, it); rec.Token != before.Token || asked.Load() == down {
			t.Errorf("asked %d times more, the row is %+v; want it as it was: %+v", asked.Load()-down, rec, before)
		}
		end(t, e)
	})
}

// A handler that returns and leaves its context to somebody else settles by its return: a transaction that begins afterwards
// would meet that settlement on its way, and is refused.
func TestTransactionAfterTheHandler(t *testing.T) {
	for name, h := range map[string]func(func(context.Context)) consumer.Handler{
		"one": func(leave func(context.Context)) consumer.Handler {
			return consumer.HandlerFunc(func(ctx context.Context, _ *consumer.Message) error { leave(ctx); return nil })
		},
		"a batch": func(leave func(context.Context)) consumer.Handler {
			return consumer.Batch(2, func(ctx context.Context, batch []*consumer.Message) []error { leave(ctx); return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				left := make(chan context.Context, 2)
				handler := h(func(ctx context.Context) { left <- context.WithoutCancel(ctx) })
				e, b := begin(t, memory.New(), options(), nil, func(c *engine.Config) { c.Handler = handler })
				in := items(2, noLane)
				e.Offer(in)
				synctest.Wait()
				b.wantAcked(t, in...)
				err := memory.InTx(<-left, func(context.Context) error { t.Error("it runs"); return nil })
				if !errors.Is(err, ledger.ErrSettled) {
					t.Errorf("InTx: %v, want ErrSettled", err)
				}
				end(t, e)
			})
		})
	}
}

// A handler that leaves while its transaction runs on elsewhere has failed, as often as it does so: the release and the
// transaction's fence cannot both hold.
func TestHandlerLeavesItsTransactionBehind(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		takes time.Duration // the transaction
		want  ledger.State
	}{
		{"with an error", errBoom, time.Hour, ledger.Failed},
		{"without an error", nil, time.Hour, ledger.Failed},
		{"and it commits in time", errBoom, 0, ledger.Succeeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := memory.New()
				o := options()
				o.Attempts = 3
				var runs, effects atomic.Int64
				e, b := begin(t, l, o, func(ctx context.Context, _ *consumer.Message) error {
					runs.Add(1)
					inside := make(chan struct{})
					go func() {
						err := memory.InTx(context.WithoutCancel(ctx), func(context.Context) error {
							close(inside)
							if c.takes > 0 {
								time.Sleep(c.takes)
							}
							return nil
						})
						if err == nil {
							effects.Add(1)
						}
					}()
					<-inside
					if c.want == ledger.Succeeded {
						time.Sleep(time.Millisecond) // until it has committed: else either may come first
					}
					return c.err
				})
				it := item("one", "")
				e.Offer([]*engine.Item{it})
				pass(2 * time.Hour)
				b.wantAcked(t, it)
				rec := state(t, l, it)
				want := fmt.Sprint(c.want, 3, 0)
				if c.want == ledger.Succeeded {
					want = fmt.Sprint(c.want, 1, 1)
				}
				if got := fmt.Sprint(rec.State, runs.Load(), effects.Load()); got != want {
					t.Errorf("state, runs and effects are %s, want %s", got, want)
				}
				end(t, e)
			})
		})
	}
}
