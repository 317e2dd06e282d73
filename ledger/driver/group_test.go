package driver_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/memory"
)

// waiting is a store whose claims wait at a gate.
type waiting struct {
	driver.Store
	gate chan struct{}
	at   atomic.Int32 // that wait
	all  atomic.Int32 // that came
}

func (w *waiting) Update(ctx context.Context, call driver.Call, fn func(driver.Tx) error) error {
	if call.Op == driver.Claim {
		w.at.Add(1)
		w.all.Add(1)
		<-w.gate
		w.at.Add(-1)
	}
	return w.Store.Update(ctx, call, fn)
}

// An owner makes batches of concurrent calls where the store says so, several at once. Once it holds ranges, whose claims wait for each
// other, one collects more while another is under way.
func TestGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &waiting{Store: memory.NewStore(), gate: make(chan struct{})}
		o, err := driver.New(w, driver.Config{Limits: ledger.DefaultLimits, Group: &ledger.GroupConfig{Flushes: 2}}).Join(t.Context(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		claim := func(entries ...ledger.Entry) {
			for _, e := range entries {
				go func() {
					if c, err := o.Claim(t.Context(), []ledger.Entry{e}); err != nil || c[0].Answer != ledger.Run {
						t.Errorf("claim of %s: %+v, %v", e.Key, c, err)
					}
				}()
			}
			synctest.Wait()
		}
		under := func(want int32) {
			t.Helper()
			if got := w.at.Load(); got != want {
				t.Fatalf("%d claims are under way, want %d", got, want)
			}
		}
		pass := func(n int) {
			for range n {
				w.gate <- struct{}{}
			}
			synctest.Wait()
		}
		claim(entry("a"), entry("b"), entry("c"), entry("d"))
		under(2)
		pass(1)
		under(2) // the other, and one of what came meanwhile
		pass(2)
		under(0)
		claim(record(0))
		under(1)
		pass(1)
		under(0)
		before := w.all.Load()
		claim(record(1), record(2), record(3))
		under(1)
		pass(2)
		under(0)
		if got := w.all.Load() - before; got != 2 {
			t.Errorf("3 claims of one log took %d transactions, want 2", got)
		}
	})
}
