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
	if took := time.Since(began); took > 8*time.Second {
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

// TestStatsAreOfThisDatabase: nobody who waits for what is not the ledger's counts, nor in another database, though its tables have
// the same numbers there; and tables are listed alone, without indexes and sequences.
func TestStatsAreOfThisDatabase(t *testing.T) {
	t.Parallel()
	b, other := newBench(t, variant{}), newBench(t, variant{})
	claimOne(t, join(t, other, time.Minute), entry("held"), ledger.Run)
	unlock, err := other.store().Lock(t.Context(), entry("held").Key)
	if err != nil {
		t.Fatal(err)
	}
	locked := make(chan error, 1)
	go func() {
		_, err := other.pool.Exec(t.Context(), "SELECT FROM ackledger.message FOR NO KEY UPDATE")
		locked <- err
	}()
	poll(t, "somebody waits in the other database", func() bool { return lockWaiters(t, other) == 1 })
	b.exec(t, "INSERT INTO effects VALUES ('a')")
	tx := hold(t, b, "SELECT FROM effects FOR UPDATE")
	go func() {
		_, err := b.pool.Exec(t.Context(), "SELECT FROM effects FOR UPDATE")
		locked <- err
	}()
	poll(t, "somebody waits for a row of the program's own", func() bool { return lockWaiters(t, b) == 1 })
	s, err := b.Stats(t.Context())
	if err != nil || s.LockWaits != 0 {
		t.Errorf("%d wait here, %v", s.LockWaits, err)
	}
	if want := b.number(t, "SELECT count(*) FROM pg_tables WHERE schemaname = 'ackledger'"); len(s.Tables) != want {
		t.Errorf("%d tables, want %d: %+v", len(s.Tables), want, s.Tables)
	}
	if first := s.Tables[0]; first.Name != "archive" || first.Bytes == 0 || first.IndexBytes == 0 {
		t.Errorf("the first table: %+v", first)
	}
	unlock()
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := <-locked; err != nil {
			t.Error(err)
		}
	}
	b.exec(t, "ALTER FUNCTION pg_catalog.pg_indexes_size RENAME TO away")
	if s, err = b.Stats(t.Context()); err == nil {
		t.Errorf("tables whose sizes nobody knows: %+v", s.Tables)
	}
	b.exec(t, "CREATE FUNCTION pg_indexes_size(regclass) RETURNS bigint LANGUAGE sql AS 'SELECT (1 / 0)::bigint'")
	if s, err = b.Stats(t.Context()); err == nil {
		t.Errorf("tables whose sizes nobody can tell: %+v", s.Tables)
	}
}
