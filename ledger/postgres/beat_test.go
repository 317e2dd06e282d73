package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// TestBeatBesideAFlood: claims that wait for a lock hold every connection of the ledger, and more claims wait for these. A
// beat that stood in that queue would come after the lease had ended, and a live worker would be declared dead.
func TestBeatBesideAFlood(t *testing.T) {
	t.Parallel()
	const conns = 2
	b := newBench(t, variant{cfg: &postgres.Config{MaxConns: conns, LockWait: time.Minute}})
	o := join(t, b, time.Minute)
	claimAll(t, o, manyEntries("before", 1), ledger.Succeed) // the scope has its number
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "LOCK TABLE ackledger.message IN EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	var claims sync.WaitGroup
	for i := range 10 * conns {
		claims.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := ledger.Unwrap(o).Claim(ctx, manyEntries(fmt.Sprint("flood-", i), 1)); err != nil {
				t.Errorf("claim %d: %v", i, err)
			}
		})
	}
	poll(t, "every connection for claims waits", func() bool { return lockWaiters(t, b) == conns })
	for i := range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if _, err := o.Beat(ctx); err != nil {
			t.Errorf("beat %d: %v", i, err)
		}
		cancel()
	}
	if n := lockWaiters(t, b); n != conns {
		t.Errorf("%d claims wait after the beats, want %d: the flood was over", n, conns)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	claims.Wait()
}

// lockWaiters is how many sessions of this test's database wait for a lock.
func lockWaiters(t *testing.T, b *bench) int {
	t.Helper()
	return b.number(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
}

// TestStatsLockWaits: who waits for a row of the ledger shows, and no longer once it has it.
func TestStatsLockWaits(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]bool{"18": false, "14": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testStatsLockWaits(t, newBench(t, variant{old: old}))
		})
	}
}

func testStatsLockWaits(t *testing.T, b *bench) {
	var waited time.Duration
	waits := func() int64 {
		s, err := b.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.LockWaited < waited {
			t.Errorf("%s waited in sum, after %s", s.LockWaited, waited)
		}
		waited = s.LockWaited
		return s.LockWaits
	}
	o := join(t, b, time.Minute)
	e := entry("held")
	claimOne(t, o, e, ledger.Run)
	unlock, err := b.store().Lock(t.Context(), e.Key)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if n := waits(); n != 0 || waited != 0 {
		t.Errorf("%d wait before anybody asked, for %s", n, waited)
	}
	locked, began := make(chan error, 1), time.Now()
	go func() { // the ledger's own statements wait for moments alone
		_, err := b.pool.Exec(t.Context(), "SELECT FROM ackledger.message WHERE id = 'held' FOR NO KEY UPDATE")
		locked <- err
	}()
	poll(t, "one session waits for the row", func() bool { return waits() == 1 })
	first := time.Now()
	poll(t, "it has waited for a second", func() bool { return waits() == 1 && waited >= time.Second })
	if took := time.Since(began); waited > took || waited < time.Since(first)/2 { // however often it was looked at, it counts once
		t.Errorf("it waited for %s at most, and %s were counted", took, waited)
	}
	unlock()
	if err := <-locked; err != nil {
		t.Error(err)
	}
	sum := waited
	if n := waits(); n != 0 || waited != sum {
		t.Errorf("%d wait after all is free, for %s, before that %s", n, waited, sum)
	}
}
