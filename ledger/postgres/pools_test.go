package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// poolOf is what the ledger says of one of its pools.
func poolOf(t *testing.T, l ledger.PoolInspector, name string) ledger.PoolStats {
	t.Helper()
	for _, s := range l.Pools() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no pool %s in %+v", name, l.Pools())
	return ledger.PoolStats{}
}

// TestPoolsOfInTx: who waits for a connection of the caller's pool is counted, and who waited in vain.
func TestPoolsOfInTx(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	intx := func() ledger.PoolStats { return poolOf(t, b, "intx") }
	all := b.pool.AcquireAllIdle(t.Context())
	for len(all) < int(b.pool.Config().MaxConns) {
		conn, err := b.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, conn)
	}
	defer func() {
		for _, conn := range all {
			conn.Release()
		}
	}()
	before := intx()
	if n := int64(len(all)); before.InUse != n || before.Max != n || before.GaveUp != 0 {
		t.Errorf("all %d connections are in use: %+v", n, before)
	}
	hurried, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := b.pool.Acquire(hurried); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if s := intx(); s.GaveUp != 1 || s.Waits != before.Waits {
		t.Errorf("one gave up: %+v, before %+v", s, before)
	}
	poll(t, "one waited", func() bool { // where the release came first, it did not wait
		got := make(chan *pgxpool.Conn)
		go func() {
			conn, err := b.pool.Acquire(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- conn
		}()
		runtime.Gosched() // on one processor it would never come first
		all[0].Release()
		all[0] = <-got
		s := intx()
		return s.Waits > before.Waits && s.Waited > before.Waited
	})
}

// TestPoolsOfTheLedger: so are those who wait for the ledger's own.
func TestPoolsOfTheLedger(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{cfg: &postgres.Config{MaxConns: 1}})
	own := func() ledger.PoolStats { return poolOf(t, b, "ledger") }
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "LOCK TABLE ackledger.message IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	first, key := make(chan error, 1), entry("asked").Key
	go func() {
		_, err := b.Get(t.Context(), key)
		first <- err
	}()
	poll(t, "the only connection is in use", func() bool { s := own(); return s.InUse == 1 && s.Max == 1 })
	hurried, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.Get(hurried, key); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second: %v", err)
	}
	if s := own(); s.GaveUp != 1 {
		t.Errorf("one gave up: %+v", s)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-first; !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("the first: %v", err)
	}
}

// TestSQLTxGivesItsConnectionBack: database/sql keeps none of the pool's connections for itself, and the program's own use of
// its pool goes on.
func TestSQLTxGivesItsConnectionBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{sql: true})
	o := join(t, b, time.Minute)
	a := ledger.NewAttempt(o, claimOne(t, o, entry("a"), ledger.Run).Ticket)
	if err := inSQLTx(ledger.WithAttempt(t.Context(), a), oneEffect); err != nil {
		t.Fatal(err)
	}
	poll(t, "no connection of the pool is in use", func() bool { return b.pool.Stat().AcquiredConns() == 0 })
}

// takeConns takes every connection of the program's pool until the test ends.
func takeConns(t *testing.T, b *bench) {
	t.Helper()
	for range b.pool.Config().MaxConns {
		conn, err := b.pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Release)
	}
}

// TestInTxWithoutAConnection: an InTx that gets no connection of the program's pool says so, and its message can be settled.
func TestInTxWithoutAConnection(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	takeConns(t, b)
	for name, run := range map[string]func(context.Context, func(context.Context) error) error{"pgx": inTx, "sql": inSQLTx} {
		c := claimOne(t, o, entry(name), ledger.Run)
		a := ledger.NewAttempt(o, c.Ticket)
		ctx, cancel := context.WithTimeout(ledger.WithAttempt(t.Context(), a), 50*time.Millisecond)
		defer cancel()
		err := run(ctx, oneEffect)
		if state, _ := a.State(); err == nil || ledger.Unknown(err) || ledger.IsLost(err) || state != ledger.AttemptOpen {
			t.Errorf("%s: %v, state %v", name, err, state)
		}
		if err := settleOne(t, o, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Release}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestInSQLTxOfAClosedLedger: it has no connections any more, and says so.
func TestInSQLTxOfAClosedLedger(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	a := ledger.NewAttempt(o, claimOne(t, o, entry("a"), ledger.Run).Ticket)
	b.Close()
	if err := inSQLTx(ledger.WithAttempt(t.Context(), a), oneEffect); !errors.Is(err, sql.ErrConnDone) {
		t.Errorf("InSQLTx: %v", err)
	}
}
