package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// TestStatsThatWaitKeepNobody: Stats waits for who has one of its tables for himself, and calls of it had all connections
// that claims and settlements need. They have one of their own, and wait for it.
func TestStatsThatWaitKeepNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	claimOne(t, o, entry("first"), ledger.Run)
	tx := hold(t, b, "LOCK TABLE ackledger.maintenance IN ACCESS EXCLUSIVE MODE")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // without a deadline they have ten seconds
	defer cancel()
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if _, err := b.Stats(ctx); err != nil {
				t.Errorf("stats: %v", err)
			}
		})
	}
	poll(t, "a call waits for the table", func() bool { return lockWaiters(t, b) > 0 })
	began := time.Now()
	succeedAll(t, o, []ledger.Claim{claimOne(t, o, entry("second"), ledger.Run)})
	succeedAll(t, o, claimsOf(t, o, records("s", 0, 0, 3), ledger.Run))
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("claims and settlements took %s", took)
	}
	if n := lockWaiters(t, b); n != 1 {
		t.Errorf("%d connections wait for the table, want 1", n)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	poll(t, "no connection stays for Stats", func() bool {
		return b.number(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%pg_indexes_size(c.oid)%' AND pid <> pg_backend_pid()") == 0
	})
}
