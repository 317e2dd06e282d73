package driver_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/memory"
)

// between is a store in which something happens before the nth transaction of a sweep.
type between struct {
	driver.Store
	n  int
	do func()
}

func (b *between) Update(ctx context.Context, call driver.Call, fn func(driver.Tx) error) error {
	if call.Op == driver.Sweep {
		if b.n--; b.n == 0 {
			b.do()
		}
	}
	return b.Store.Update(ctx, call, fn)
}

// A range of an owner that died is dissolved by a claim while a sweep's pass is under way: the pass has seen its messages neither
// as rows nor in the range, removes their owner, and their crash counts for nobody.
func TestSweep_RangeDissolvedDuringPass(t *testing.T) {
	for n := 1; ; n++ {
		w := &world{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
		store := &between{Store: memory.NewStore(memory.WithClock(func() time.Time { return w.now }))}
		w.store = store
		w.Ledger = driver.New(store, driver.Config{Name: "test", Limits: ledger.DefaultLimits})
		w.o = w.join(t)
		e := []ledger.Entry{record(1), record(2)}
		for i := range e {
			e[i].Window = 24 * time.Hour
		}
		w.claim(t, w.o, ledger.Run, e...)
		peer := w.join(t)
		for range 6 { // the owner is overdue, and is declared dead
			w.now = w.now.Add(20 * time.Second)
			if _, err := peer.Beat(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for range 6 * 60 {
			w.now = w.now.Add(20 * time.Second)
			if _, err := peer.Beat(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		store.n, store.do = n, func() {
			if c := w.claim(t, peer, ledger.Run, e[0])[0]; c.Crashes != 1 {
				t.Errorf("before transaction %d: %+v, want one crash", n, c)
			}
		}
		report, err := w.Sweep(t.Context(), ledger.MaintainConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if store.n > 0 {
			return // the pass has no such transaction
		}
		if c := w.claim(t, peer, ledger.Run, e[1])[0]; c.Crashes != 1 {
			t.Error(fmt.Errorf("claimed before transaction %d: the neighbour has %d crashes, want 1 (%d owners removed)", n, c.Crashes, report.Owners))
		}
	}
}
