package consumertest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/consumer/consumertest"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

func orders(n int) []consumer.Message {
	out := make([]consumer.Message, n)
	for i := range out {
		out[i] = consumer.Message{ID: fmt.Sprint("order-", i), Body: []byte("x")}
	}
	return out
}

func TestABatchHandlerGetsMessagesTogether(t *testing.T) {
	var sizes []int
	bench := consumertest.New(t, consumer.Batch(10, func(ctx context.Context, batch []*consumer.Message) []error {
		sizes = append(sizes, len(batch))
		errs := make([]error, len(batch))
		for i, m := range batch {
			if m.ID == "order-3" && m.Attempt == 1 {
				errs[i] = errors.New("not yet")
			}
			_ = consumer.SetResult(consumer.For(ctx, m), []byte("of "+m.ID))
		}
		return errs
	}))
	for i, r := range bench.DeliverAll(orders(10)...) {
		if r.Runs != 1 || r.Acked == (i == 3) || (r.Err != nil) != (i == 3) {
			t.Errorf("order %d: %+v", i, r)
		}
	}
	for i, r := range bench.DeliverAll(orders(10)...) {
		if i == 3 && (r.Runs != 1 || !r.Acked) || i != 3 && (r.Answer != ledger.Done || r.Runs != 0 || string(r.Outcome.Result) != fmt.Sprint("of order-", i)) {
			t.Errorf("again, order %d: %+v", i, r)
		}
	}
	if fmt.Sprint(sizes) != "[10 1]" {
		t.Errorf("batches of %v", sizes)
	}
}

func TestABatchThatComesToNothing(t *testing.T) {
	for name, spoil := range map[string]func() []error{
		"panicked":                func() []error { panic("boom") },
		"ended its goroutine":     func() []error { runtime.Goexit(); return nil },
		"one error for each of 1": func() []error { return make([]error, 7) },
	} {
		t.Run(name, func(t *testing.T) {
			bench := consumertest.New(t, consumer.Batch(5, func(_ context.Context, batch []*consumer.Message) []error {
				for _, m := range batch {
					if m.ID == "order-2" {
						return spoil()
					}
				}
				return nil
			}))
			for i, r := range bench.DeliverAll(orders(5)...) {
				if i != 2 && (r.Runs != 2 || !r.Acked || r.Err != nil) {
					t.Errorf("order %d: %+v", i, r)
				}
				if i == 2 && (r.Runs != 2 || r.Acked || r.Err == nil || !strings.Contains(r.Err.Error(), name)) {
					t.Errorf("order %d: %+v", i, r)
				}
			}
		})
	}
}

func TestABatchCrashes(t *testing.T) {
	for _, inTx := range []bool{false, true} {
		t.Run(fmt.Sprint("in a transaction: ", inTx), func(t *testing.T) {
			effects := map[string]int{}
			bench := consumertest.New(t, consumer.Batch(5, func(ctx context.Context, batch []*consumer.Message) []error {
				work := func(context.Context) error {
					for _, m := range batch {
						effects[consumer.ChildKey(consumer.For(ctx, m), "effect")]++
					}
					return nil
				}
				if inTx {
					_ = memory.InTx(ctx, work)
				} else {
					_ = work(ctx)
				}
				return nil
			}))
			for i, r := range bench.CrashAll(orders(5)...) {
				if r.Acked || r.Runs != 1 {
					t.Errorf("order %d: %+v", i, r)
				}
			}
			for i, r := range bench.DeliverAll(orders(5)...) {
				if !r.Acked || (r.Runs == 0) != inTx {
					t.Errorf("order %d again: %+v", i, r)
				}
			}
			for key, n := range effects {
				if (n == 1) != inTx || key == "" {
					t.Errorf("effect %s happened %d times", key, n)
				}
			}
			if len(effects) != 5 {
				t.Errorf("%d keys", len(effects))
			}
		})
	}
}
