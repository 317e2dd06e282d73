package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// obey runs a batch until it is cancelled the first time, and notes why.
func obey(h *batches, cause *error) {
	h.f = func(ctx context.Context, batch []*consumer.Message) []error {
		if h.count() > 1 {
			return nil
		}
		<-ctx.Done()
		*cause = context.Cause(ctx)
		return slices.Repeat([]error{ctx.Err()}, len(batch))
	}
}

func TestBatchWithARevokedMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &batches{}
		var cause error
		obey(h, &cause)
		e, b := beginBatch(t, l, oneByOne(), 8, h)
		in := items(8, noLane)
		e.Offer(in)
		synctest.Wait()
		if load := e.Load(); load.Running != 8 || load.Queued != 0 {
			t.Errorf("load of a running batch: %+v", load)
		}
		gone := e.Drop(func(it *engine.Item) bool { return it == in[3] }, time.Second)
		pass(time.Minute)
		<-gone
		if !errors.Is(cause, consumer.ErrRevoked) {
			t.Errorf("cancelled: %v", cause)
		}
		b.wantKept(t, in[3])
		b.wantAcked(t, slices.Delete(slices.Clone(in), 3, 4)...)
		for _, it := range in {
			if rec := state(t, l, it); rec.Attempts != 0 || rec.Owner != "" {
				t.Errorf("message %s: %+v", it.Msg.ID, rec)
			}
		}
		end(t, e)
	})
}

func TestBatchUnderALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &batches{}
		net := &link{Ledger: l}
		var cause error
		obey(h, &cause)
		e, b := beginBatch(t, net, oneByOne(), 8, h)
		in := items(8, noLane)
		e.Offer(in)
		synctest.Wait()
		l.Declare(net.owner())
		pass(time.Minute)
		if !errors.Is(cause, ledger.ErrLost) {
			t.Errorf("cancelled: %v", cause)
		}
		wantInnocent(t, l, b, in)
		end(t, e)
	})
}

func TestBatchAtTheEndOfADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &batches{}
		var cause error
		obey(h, &cause)
		e, b := beginBatch(t, l, oneByOne(), 8, h)
		in := items(20, noLane)
		e.Offer(in)
		synctest.Wait()
		if err := e.Drain(t.Context()); err != nil || !errors.Is(cause, consumer.ErrShutdown) {
			t.Errorf("drain: %v, cancelled: %v", err, cause)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		b.wantKept(t, in...)
		for _, it := range in {
			if rec := state(t, l, it); rec.State != ledger.Pending || rec.Attempts != 0 || rec.Owner != "" {
				t.Errorf("message %s: %+v", it.Msg.ID, rec)
			}
		}
	})
}

func TestBatchHasOneOfEachLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &batches{}
		order := map[string][]string{}
		failed := map[string]bool{}
		h.f = func(_ context.Context, batch []*consumer.Message) []error {
			time.Sleep(time.Millisecond)
			h.mu.Lock()
			defer h.mu.Unlock()
			lanes, errs := map[string]bool{}, make([]error, len(batch))
			for i, m := range batch {
				if lanes[m.Group] {
					t.Errorf("two messages of lane %s are in one batch", m.Group)
				}
				lanes[m.Group] = true
				if m.ID[len(m.ID)-1] == '7' && !failed[m.ID] {
					failed[m.ID], errs[i] = true, errBoom
					continue
				}
				order[m.Group] = append(order[m.Group], m.ID)
			}
			return errs
		}
		e, b := beginBatch(t, l, options(), 16, h)
		in := items(400, func(i int) string { return fmt.Sprint(i % 9) })
		for _, it := range in {
			it.Msg.Group = it.OrderingKey
		}
		e.Offer(in)
		pass(time.Hour)
		b.wantAcked(t, in...)
		for lane, ids := range order {
			if !slices.IsSorted(ids) {
				t.Errorf("lane %s ran as %v", lane, ids)
			}
		}
		end(t, e)
	})
}

// However a batch ends, its place in the shared limiter is free again; one that waits for its place when the drain begins
// is given back.
func TestBatchesLeakNoPlaceInTheLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &batches{}
		ends := []func(){func() { panic("ouch") }, runtime.Goexit, func() {}}
		h.f = func(_ context.Context, batch []*consumer.Message) []error {
			n := h.count()
			ends[n%len(ends)]()
			return make([]error, len(batch)+n%2)
		}
		o := options()
		o.Limiter, o.Rate = consumer.NewLimiter(2), 1000
		e, b := beginBatch(t, l, o, 4, h)
		in := items(100, noLane)
		e.Offer(in)
		pass(6 * time.Hour)
		b.wantAcked(t, in...)
		for range 2 { // both are free: a place that is not would be waited for
			if err := o.Limiter.Acquire(t.Context()); err != nil {
				t.Error(err)
			}
		}
		rest := []*engine.Item{item("x", ""), item("y", "")}
		e.Offer(rest)
		pass(time.Minute)
		if e.Load().Running != 0 {
			t.Errorf("a batch that waits for its place runs: %+v", e.Load())
		}
		end(t, e)
		b.wantKept(t, rest...)
		o.Limiter.Release()
		o.Limiter.Release()
	})
}

// foreign is a batch handler that is not made by consumer.Batch.
type foreign struct {
	consumer.HandlerFunc
	size  int
	sizes chan int
}

func (f *foreign) BatchSize() int { return f.size }

func (f *foreign) HandleBatch(_ context.Context, batch []*consumer.Message) []error {
	f.sizes <- len(batch)
	return nil
}

func TestBatchSizesOutOfRange(t *testing.T) {
	for size, want := range map[int]int{-1: 1, 0: 1, consumer.MaxBatch + 1: 20} {
		synctest.Test(t, func(t *testing.T) {
			h := &foreign{size: size, sizes: make(chan int, 20)}
			e, b := begin(t, memory.New(), oneByOne(), nil, func(c *engine.Config) { c.Handler = h })
			in := items(20, noLane)
			e.Offer(in)
			pass(time.Second)
			b.wantAcked(t, in...)
			close(h.sizes)
			largest := 0
			for n := range h.sizes {
				largest = max(largest, n)
			}
			if largest != want {
				t.Errorf("size %d: batches of up to %d, want %d", size, largest, want)
			}
			end(t, e)
		})
	}
}

// A handler whose effects must not be repeated blindly claims only what it can start at once, in batches too.
func TestParkedBatchesClaimWhatTheyStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, h := memory.New(), &batches{}
		release := make(chan struct{})
		h.f = func(context.Context, []*consumer.Message) []error { <-release; return nil }
		o := options()
		o.Concurrency, o.Park = 2, true
		e, b := beginBatch(t, l, o, 5, h)
		first := items(2, noLane)
		e.Offer(first)
		pass(time.Second)
		in := items(40, noLane)
		e.Offer(in[2:])
		pass(time.Second)
		if running := e.Load().Running; running != l.Len() || h.count() != 2 {
			t.Errorf("%d messages run in %d batches, %d are claimed", running, h.count(), l.Len())
		}
		close(release)
		pass(time.Minute)
		b.wantAcked(t, first...)
		b.wantAcked(t, in[2:]...)
		end(t, e)
	})
}
