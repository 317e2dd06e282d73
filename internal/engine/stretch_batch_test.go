package engine_test

import (
	"context"
	"errors"
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

// inBatches is stretches for a batch handler of up to 50, which is known to be quick.
type inBatches struct {
	*stretches
	sizes []int // of the batches
	now   int   // handlers that run
	most  int
}

func newInBatches(t *testing.T, h func(ctx context.Context, batch []*consumer.Message) []error) *inBatches {
	t.Helper()
	l := memory.New()
	b := &inBatches{stretches: &stretches{t: t, l: l, net: &link{Ledger: l, stretches: true}, acks: map[int64]int{}, keeps: map[int64]int{}}}
	o, err := options().WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	o.BackoffBase, o.BackoffMax = time.Second, time.Second
	var once sync.Once
	handler := consumer.Batch(50, func(ctx context.Context, batch []*consumer.Message) (errs []error) {
		first := false
		once.Do(func() { first = true })
		if first {
			return nil
		}
		b.mu.Lock()
		b.sizes = append(b.sizes, len(batch))
		b.now++
		b.most = max(b.most, b.now)
		b.mu.Unlock()
		errs = h(ctx, batch)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.now--
		return errs
	})
	b.Engine, err = engine.New(engine.Config{Options: o, Ledger: b.net, Sink: b, Handler: handler, Suspects: consumer.NewLimiter(1)})
	if err == nil {
		err = b.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	b.Offer(b.records(10).Items(0, 10))
	pass(time.Second)
	return b
}

// offer offers n records of no order.
func (b *inBatches) offer(n int) {
	r := b.records(n)
	r.lane = func(string) string { return "" }
	st := r.stretch()
	st.Ordered = false
	b.OfferStretch(st)
}

// settled expects each of the records to have succeeded, and to be acknowledged once.
func (b *inBatches) settled(whole int) {
	b.t.Helper()
	for offset := range b.next {
		if r, err := b.l.Get(b.t.Context(), stormLog("a").key(offset)); err != nil || r.State != ledger.Succeeded || b.acks[offset] != 1 {
			b.t.Errorf("record %d: %v, %v, acknowledged %d times", offset, r.State, err, b.acks[offset])
		}
	}
	if b.whole != whole {
		b.t.Errorf("%d records came back together, want %d", b.whole, whole)
	}
	if load := b.Load(); load != (engine.Load{}) {
		b.t.Errorf("left: %+v", load)
	}
}

// A stretch is cut into batches of about the same size, and settled as one.
func TestStretchInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newInBatches(t, func(context.Context, []*consumer.Message) []error { return nil })
		b.net.settles.Store(0)
		b.offer(220)
		pass(time.Second)
		if want := []int{44, 44, 44, 44, 44}; !slices.Equal(b.sizes, want) {
			t.Errorf("batches of %v, want %v", b.sizes, want)
		}
		if n := b.net.settles.Load(); n != 1 {
			t.Errorf("%d calls settled them", n)
		}
		b.settled(220)
		end(t, b.Engine)
	})
}

// Batches that their transactions have settled stay one stretch: nothing of it is split, and nothing settled again.
func TestStretchInBatchesInTx(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newInBatches(t, func(ctx context.Context, _ []*consumer.Message) []error {
			if err := memory.InTx(ctx, func(context.Context) error { return nil }); err != nil {
				t.Error(err)
			}
			return nil
		})
		b.offer(220)
		pass(time.Second)
		if len(b.sizes) != 5 {
			t.Errorf("batches of %v", b.sizes)
		}
		b.settled(220)
		end(t, b.Engine)
	})
}

// One message of the third batch fails at first. Those that are done are not run again, by a transaction or without one.
func TestStretchInBatchesFails(t *testing.T) {
	for name, inTx := range map[string]bool{"plain": false, "in transactions": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran := map[string]int{}
				var mu sync.Mutex
				b := newInBatches(t, func(ctx context.Context, batch []*consumer.Message) []error {
					mu.Lock()
					defer mu.Unlock()
					errs, failed := make([]error, len(batch)), false
					for i, m := range batch {
						ran[m.ID]++
						if m.ID == "a-110" && m.Attempt == 1 {
							errs[i], failed = errBoom, true
						}
					}
					if inTx && !failed {
						return slices.Repeat([]error{memory.InTx(ctx, func(context.Context) error { return nil })}, len(batch))
					}
					return errs
				})
				b.offer(220)
				pass(time.Minute)
				for id, n := range ran {
					if want := map[bool]int{true: 2, false: 1}[id == "a-110"]; n != want {
						t.Errorf("%s ran %d times, want %d", id, n, want)
					}
				}
				b.settled(0)
				end(t, b.Engine)
			})
		})
	}
}

// A panic in a batch makes each of its messages run alone, and no other.
func TestStretchInBatchesPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newInBatches(t, func(_ context.Context, batch []*consumer.Message) []error {
			if len(batch) > 1 && slices.ContainsFunc(batch, func(m *consumer.Message) bool { return m.ID == "a-110" }) {
				panic("ouch")
			}
			return nil
		})
		b.offer(220)
		pass(time.Minute)
		alone := 0
		for _, n := range b.sizes {
			if n == 1 {
				alone++
			}
		}
		if alone != 44 {
			t.Errorf("batches of %v, want 44 of 1", b.sizes)
		}
		b.settled(0)
		end(t, b.Engine)
	})
}

// A stretch runs a batch at a time. While a handler is idle, the rest of it goes to that one after a while.
func TestStretchInBatchesIsRelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := false
		b := newInBatches(t, func(context.Context, []*consumer.Message) []error {
			if slow {
				time.Sleep(10 * time.Second)
			} else {
				time.Sleep(5 * time.Millisecond)
			}
			return nil
		})
		b.offer(200)
		pass(time.Second)
		b.settled(200) // nobody has to help quick ones
		slow = true
		b.offer(200)
		if took := b.takes(410); b.most < 4 || took > 11*time.Second {
			t.Errorf("%d at once, it took %s", b.most, took)
		}
		end(t, b.Engine)
	})
}

// Records that have an order go into batches one of a lane at a time.
func TestOrderedStretchIsNoBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newInBatches(t, func(_ context.Context, batch []*consumer.Message) []error {
			lanes := map[byte]bool{}
			for _, m := range batch {
				lane := m.ID[len(m.ID)-1]
				if lanes[lane] {
					t.Errorf("two of lane %c in a batch", lane)
				}
				lanes[lane] = true
			}
			return nil
		})
		if b.Stretches(true) || !b.Stretches(false) {
			t.Errorf("stretches: %t in order, %t without", b.Stretches(true), b.Stretches(false))
		}
		b.OfferStretch(b.records(220).stretch())
		pass(time.Minute)
		b.settled(0)
		end(t, b.Engine)
	})
}

// What a drain meets in the middle of a stretch: the batch that runs is settled, the rest is given back.
func TestStretchInBatchesIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newInBatches(t, func(ctx context.Context, batch []*consumer.Message) []error {
			time.Sleep(5 * time.Millisecond)
			if len(batch) == 1 {
				return []error{errors.New("alone")}
			}
			return nil
		})
		b.offer(220)
		time.Sleep(12 * time.Millisecond) // in the third
		if err := b.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if ran, acked := len(b.sizes), b.acked(); ran != 3 || acked != 10+3*44 {
			t.Errorf("%d batches ran, %d are acknowledged", ran, acked)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Stretches that fill no batch go into batches with others.
func TestShortStretchesShareABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newInBatches(t, func(context.Context, []*consumer.Message) []error { return nil })
		for range 3 {
			b.offer(16)
		}
		pass(time.Minute)
		b.settled(0)
		end(t, b.Engine)
	})
}
