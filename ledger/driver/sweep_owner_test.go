package driver_test

import (
	"context"
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

// TestPitfall153_RangeDissolvedDuringPass: a claim dissolved the range of a dead owner while a sweep passed. The pass had seen its messages
// neither as rows nor in the range, removed their owner, and the crash counted for nobody.
func TestPitfall153_RangeDissolvedDuringPass(t *testing.T) {
	for n := 1; claimedDuringPass(t, n); n++ { // the claim comes before each transaction of a pass
	}
}

// claimedDuringPass has the claim come before the nth transaction; false: a pass has fewer.
func claimedDuringPass(t *testing.T, n int) bool {
	w := &world{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	store := &between{Store: memory.NewStore(memory.WithClock(func() time.Time { return w.now }))}
	w.store = store
	w.Ledger = driver.New(store, driver.Config{Name: "test", Limits: ledger.DefaultLimits})
	w.o = w.join(t)
	all := []ledger.Entry{record(1), record(2)}
	for i := range all {
		all[i].Window = 24 * time.Hour
	}
	w.claim(t, w.o, ledger.Run, all...)
	peer := w.join(t)
	for end := w.now.Add(2 * time.Hour); w.now.Before(end); { // the owner is overdue, is declared dead, and rests
		w.now = w.now.Add(20 * time.Second)
		if _, err := peer.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	store.n, store.do = n, func() {
		if c := w.claim(t, peer, ledger.Run, all[0])[0]; c.Crashes != 1 {
			t.Errorf("before transaction %d: %+v, want one crash", n, c)
		}
	}
	report, err := w.Sweep(t.Context(), ledger.MaintainConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if store.n > 0 {
		return false
	}
	if c := w.claim(t, peer, ledger.Run, all[1])[0]; c.Crashes != 1 {
		t.Errorf("claimed before transaction %d: the neighbour has %d crashes, want 1 (%d owners removed)", n, c.Crashes, report.Owners)
	}
	return true
}
