package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

func everything(*engine.Item) bool { return true }

// A revoke with 2,000 claimed records queued, ten times over: all are released at once and uncounted, and free for
// whoever has the partition then.
func TestPitfall98_RevokeOfManyClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		o := options()
		block := make(chan struct{})
		var fast atomic.Bool
		fast.Store(true)
		e, b := begin(t, l, o, func(ctx context.Context, m *consumer.Message) error {
			if !fast.Load() {
				select {
				case <-block:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
		var in []*engine.Item
		for round := range 10 {
			fast.Store(true) // fast handlers: claims run far ahead of them
			warm := make([]*engine.Item, 3000)
			for i := range warm {
				warm[i] = item(fmt.Sprint("warm ", round, " ", i), "")
			}
			e.Offer(warm)
			pass(100 * time.Millisecond)
			in = items(2000, func(i int) string { return fmt.Sprint(i % 8) })
			fast.Store(false)
			e.Offer(in)
			synctest.Wait()
			owned := 0
			for _, it := range in {
				if rec, err := l.Get(t.Context(), it.Key); err == nil && rec.Owner != "" {
					owned++
				}
			}
			if owned < 1000 {
				t.Fatalf("only %d are claimed: little is tested", owned)
			}
			began := time.Now()
			<-e.Drop(everything, 0)
			synctest.Wait()
			if took := time.Since(began); took > time.Second {
				t.Errorf("round %d: released after %s", round, took)
			}
			b.wantKept(t, in...)
			pass(time.Second)
			if load := e.Load(); load != (engine.Load{}) {
				t.Fatalf("round %d: %+v", round, load)
			}
		}
		for _, it := range in {
			rec, err := l.Get(t.Context(), it.Key)
			if err == nil && (rec.Owner != "" || rec.Attempts != 0 || rec.Crashes != 0) {
				t.Fatalf("message %s: %+v", it.Msg.ID, rec)
			}
		}
		fast.Store(true)
		again := items(2000, func(i int) string { return fmt.Sprint(i % 8) })
		e.Offer(again)
		pass(time.Minute)
		b.wantAcked(t, again...)
		end(t, e)
	})
}

// Shutdown cancels the worker's context while handlers run: their completion is still written, and acknowledged.
func TestPitfall24_CompletionAfterShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		ctx, shutdown := context.WithCancel(t.Context())
		o, _ := options().WithDefaults()
		b := &broker{}
		e, err := engine.New(engine.Config{
			Options: o, Ledger: l, Sink: b,
			Handler: consumer.HandlerFunc(func(ctx context.Context, _ *consumer.Message) error {
				select {
				case <-time.After(3 * time.Second):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Start(ctx); err != nil {
			t.Fatal(err)
		}
		in := items(8, noLane)
		e.Offer(in)
		synctest.Wait()
		shutdown()
		end(t, e)
		b.wantAcked(t, in[:4]...)
		b.wantKept(t, in[4:]...)
		for i, it := range in {
			rec, err := l.Get(context.Background(), it.Key)
			if i < 4 && rec.State != ledger.Succeeded || i >= 4 && err == nil && (rec.Owner != "" || rec.Attempts != 0) {
				t.Errorf("message %d: %+v", i, rec)
			}
		}
	})
}

// A handler is deaf to its cancelled context: the drain ends in time and names it, Health turns not alive, its row stays
// busy while its worker lives and is free once that has left; when it ends at last nothing is acknowledged.
func TestPitfall61_DeafHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		o := options()
		o.SlowAfter = time.Minute
		wake := make(chan struct{})
		e, b := begin(t, l, o, func(context.Context, *consumer.Message) error { <-wake; return nil })
		deaf, behind := item("deaf", "lane"), item("behind", "lane")
		e.Offer([]*engine.Item{deaf, behind})
		pass(2 * time.Minute)
		h := e.Health()
		if !h.Alive || len(h.Stalled) != 1 || h.Stalled[0].What != "deaf" || h.Stalled[0].Why != "handler runs" || h.Stalled[0].Lane != "lane" {
			t.Fatalf("slow: %+v", h)
		}
		began := time.Now()
		err := e.Drain(t.Context())
		stuck, ok := errors.AsType[*engine.DrainError](err)
		if !ok || len(stuck.IDs) != 1 || stuck.IDs[0] != "deaf" || stuck.More != 0 {
			t.Fatalf("drain: %v", err)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("the drain of 5s took %s", took)
		}
		b.wantKept(t, deaf, behind)
		if h = e.Health(); !h.Alive || h.Stalled[0].Why != "handler ignores its cancelled context" {
			t.Errorf("just cancelled: %+v", h)
		}
		peer, pb := begin(t, l, options(), func(context.Context, *consumer.Message) error { return nil })
		copies := []*engine.Item{item("deaf", "")}
		peer.Offer(copies)
		pass(time.Minute)
		if h = e.Health(); h.Alive {
			t.Errorf("alive with a deaf handler: %+v", h)
		}
		if _, ok := pb.verdict(t, copies[0]); ok {
			t.Error("the message was taken from a worker that lives")
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		pass(time.Minute)
		pb.wantAcked(t, copies...)
		close(wake)
		pass(time.Minute)
		b.wantKept(t, deaf)
		end(t, peer)
	})
}

func TestDropLetsHandlersFinishWithinTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		var mu sync.Mutex
		causes := map[string]error{}
		e, b := begin(t, l, options(), func(ctx context.Context, m *consumer.Message) error {
			wait := 2 * time.Second
			if m.ID == "long" {
				wait = time.Hour
			}
			select {
			case <-time.After(wait):
				return nil
			case <-ctx.Done():
				mu.Lock()
				defer mu.Unlock()
				causes[m.ID] = context.Cause(ctx)
				return ctx.Err()
			}
		})
		short, long, other := item("short", ""), item("long", ""), item("other", "")
		e.Offer([]*engine.Item{short, long, other})
		synctest.Wait()
		began := time.Now()
		<-e.Drop(func(it *engine.Item) bool { return it != other }, 5*time.Second)
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("dropped after %s", took)
		}
		pass(time.Second)
		b.wantAcked(t, short, other)
		b.wantKept(t, long)
		if len(causes) != 1 || !errors.Is(causes["long"], consumer.ErrRevoked) {
			t.Errorf("causes %v", causes)
		}
		if rec := state(t, l, long); rec.Owner != "" || rec.Attempts != 0 || rec.State != ledger.Pending {
			t.Errorf("%+v", rec)
		}
		end(t, e)
	})
}

// Dropped while it waits for the shared limiter or the rate: not started, so released at once, not when its turn comes.
func TestDropWhileStarting(t *testing.T) {
	for _, limit := range []string{"limiter", "rate"} {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := memory.New()
				o := options()
				if limit == "rate" {
					o.Rate = 0.001
				} else {
					o.Limiter = consumer.NewLimiter(1)
				}
				if err := o.Limiter.Acquire(t.Context()); err != nil {
					t.Fatal(err)
				}
				ran := map[string]bool{}
				var mu sync.Mutex
				e, b := begin(t, l, o, func(_ context.Context, m *consumer.Message) error {
					mu.Lock()
					defer mu.Unlock()
					ran[m.ID] = true
					return nil
				})
				e.Offer([]*engine.Item{item("takes the first turn", "")})
				synctest.Wait()
				it := item("one", "")
				e.Offer([]*engine.Item{it})
				synctest.Wait()
				<-e.Drop(func(i *engine.Item) bool { return i == it }, time.Hour)
				b.wantKept(t, it)
				if rec := state(t, l, it); rec.Owner != "" {
					t.Errorf("still %s's", rec.Owner)
				}
				o.Limiter.Release()
				pass(time.Minute)
				if ran["one"] {
					t.Error("it ran after it was dropped")
				}
				end(t, e)
			})
		})
	}
}

// An expired handle, noticed right before the handler would start: the item is let go of and its row free.
func TestNotAliveIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		ran := false
		e, b := begin(t, l, options(), func(context.Context, *consumer.Message) error { ran = true; return nil })
		it := item("one", "")
		it.Alive = func(*engine.Item) bool { return false }
		e.Offer([]*engine.Item{it})
		pass(time.Second)
		b.wantKept(t, it)
		if rec := state(t, l, it); rec.Owner != "" || rec.Attempts != 0 || ran {
			t.Errorf("ran %v, %+v", ran, rec)
		}
		end(t, e)
	})
}

// Drop meets items in each phase that it can meet them in; each is finished exactly once, and none is left ours.
func TestDropInEveryPhase(t *testing.T) {
	for _, c := range []struct {
		name  string
		slow  memory.Op // the call that takes 2 s
		h     consumer.HandlerFunc
		lane  string
		after time.Duration // when the drop comes
	}{
		{"queued", "", nil, "", 0},
		{"claiming", memory.Claim, nil, "", time.Second},
		{"settling", memory.Settle, nil, "", time.Second},
		{"settling a failure", memory.Settle, func(context.Context, *consumer.Message) error { return consumer.Terminal(errBoom) }, "", time.Second},
		{"settling a retry", memory.Settle, func(context.Context, *consumer.Message) error { return errBoom }, "lane", time.Second},
		{"waiting", "", func(context.Context, *consumer.Message) error { return consumer.RetryAfter(errBoom, time.Hour) }, "lane", time.Second},
		{"running", "", func(ctx context.Context, _ *consumer.Message) error { <-ctx.Done(); return ctx.Err() }, "lane", time.Second},
	} {
		for _, grace := range []time.Duration{0, time.Second, time.Minute} {
			t.Run(fmt.Sprint(c.name, " ", grace), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := memory.New()
					l.FailBefore(func(_ context.Context, op memory.Op) error {
						if op == c.slow {
							time.Sleep(2 * time.Second)
						}
						return nil
					})
					h := c.h
					if h == nil {
						h = func(context.Context, *consumer.Message) error { return nil }
					}
					o := options()
					o.Lease = 30 * time.Second
					e, b := begin(t, l, o, h)
					in := items(20, func(int) string { return c.lane })
					e.Offer(in)
					if c.after > 0 {
						pass(c.after)
					}
					began := time.Now()
					<-e.Drop(everything, grace)
					if took := time.Since(began); took > grace+3*time.Second {
						t.Errorf("dropped after %s", took)
					}
					<-e.Drop(everything, grace) // nothing is left to be dropped
					pass(2 * time.Minute)
					for _, it := range in {
						v, ok := b.verdict(t, it)
						if !ok {
							t.Fatalf("message %s was not finished", it.Msg.ID)
						}
						rec, err := l.Get(t.Context(), it.Key)
						if v.Ack && (err != nil || rec.State == ledger.Pending) {
							t.Fatalf("message %s was acknowledged: %+v", it.Msg.ID, rec)
						}
						if rec.Owner != "" {
							t.Fatalf("message %s is still owned", it.Msg.ID)
						}
					}
					if load := e.Load(); load != (engine.Load{}) {
						t.Errorf("%+v", load)
					}
					end(t, e)
				})
			})
		}
	}
}

// Dropped while it is being claimed: it is released when the answer is there, not when a handler is free.
func TestDropWhileClaimingBehindBusyHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		o := options()
		o.Concurrency, o.Lease = 1, 30*time.Second
		e, b := begin(t, l, o, func(ctx context.Context, _ *consumer.Message) error { <-ctx.Done(); return ctx.Err() })
		e.Offer([]*engine.Item{item("busy", "")})
		synctest.Wait()
		l.FailBefore(func(_ context.Context, op memory.Op) error {
			if op == memory.Claim {
				time.Sleep(2 * time.Second)
			}
			return nil
		})
		it := item("one", "")
		e.Offer([]*engine.Item{it})
		pass(time.Second)
		began := time.Now()
		<-e.Drop(func(i *engine.Item) bool { return i == it }, time.Minute)
		if took := time.Since(began); took != time.Second {
			t.Errorf("dropped after %s", took)
		}
		b.wantKept(t, it)
		if rec := state(t, l, it); rec.Owner != "" || rec.Token != 1 {
			t.Errorf("%+v", rec)
		}
		_ = e.Drain(t.Context())
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
