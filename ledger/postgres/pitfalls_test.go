package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

func join(t *testing.T, b *bench, lease time.Duration) ledger.Owner {
	t.Helper()
	o, err := b.Join(t.Context(), lease)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// setting changes what sessions of the database begin with.
func (b *bench) setting(t *testing.T, name, value string) {
	t.Helper()
	b.exec(t, fmt.Sprintf(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I SET %s = %%L', current_database(), '%s');
		END $$`, name, value))
}

// number reads one number.
func (b *bench) number(t testing.TB, query string) (n int) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPitfall06_ClockOff: a worker whose clock was an hour off took live leases for ended ones. Here the database's clock
// is an hour off the worker's, either way.
func TestPitfall06_ClockOff(t *testing.T) {
	t.Parallel()
	for _, off := range []string{"1 hour", "-1 hour"} {
		t.Run(off, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, variant{})
			b.exec(t, "CREATE SCHEMA skew")
			b.exec(t, fmt.Sprintf(`CREATE FUNCTION skew.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
				AS $$ SELECT pg_catalog.clock_timestamp() + interval '%s' $$`, off))
			b.exec(t, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = skew, pg_catalog, public',
				current_database()); END $$`)
			skewed := openBench(t, b.url, variant{})
			o, peer := join(t, skewed, time.Minute), join(t, skewed, time.Minute)
			c := claimOne(t, o, entry("a"), ledger.Run)
			held := claimOne(t, peer, entry("a"), ledger.Busy)
			if held.Wait < 30*time.Second || held.Wait > time.Minute {
				t.Fatalf("the lease lasts another %s", held.Wait)
			}
			err := settleOne(t, o, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Release, After: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			if due := claimOne(t, peer, entry("a"), ledger.Busy); due.Wait < 30*time.Second || due.Wait > time.Minute {
				t.Fatalf("due in %s", due.Wait)
			}
			if _, err := o.Beat(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := skewed.number(t, "SELECT count(*) FROM ackledger.owner WHERE fate = 1"); n != 2 {
				t.Fatalf("%d live owners, want 2", n)
			}
		})
	}
}

// TestPitfall09_PoisonedTransaction: after a duplicate insert everything in the transaction fails (25P02), and a handler
// that swallows the error would be marked as succeeded. A savepoint saves the rest.
func TestPitfall09_PoisonedTransaction(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	b.exec(t, "CREATE TABLE once (id text PRIMARY KEY)")
	o := join(t, b, time.Minute)
	handle := func(e ledger.Entry, insert func(context.Context, pgx.Tx) error) error {
		a := ledger.NewAttempt(o, claimOne(t, o, e, ledger.Run).Ticket)
		return postgres.InTx(ledger.WithAttempt(t.Context(), a), func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO once VALUES ('x') ON CONFLICT DO NOTHING"); err != nil {
				return err
			}
			if err := insert(ctx, tx); err == nil {
				return errors.New("the duplicate was accepted")
			}
			return nil
		})
	}
	const duplicate = "INSERT INTO once VALUES ('x')"
	err := handle(entry("a"), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, duplicate)
		return err
	})
	if err == nil || ledger.IsLost(err) {
		t.Fatalf("InTx on an aborted transaction: %v", err)
	}
	if n := b.number(t, "SELECT count(*) FROM once"); n != 0 {
		t.Fatalf("%d rows were committed", n)
	}
	err = handle(entry("b"), func(ctx context.Context, tx pgx.Tx) error {
		return pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
			_, err := inner.Exec(ctx, duplicate)
			return err
		})
	})
	if err != nil {
		t.Fatalf("InTx with a savepoint: %v", err)
	}
	claimOne(t, o, entry("b"), ledger.Done)
}

// TestPitfall10_FirstClaims: an insert-or-select returned no row under a concurrent insert, and 40001 in stricter
// isolation. Whatever the database's default level, each new key runs once, and nothing reads as an outage.
func TestPitfall10_FirstClaims(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, variant{})
			b.setting(t, "default_transaction_isolation", level)
			b = openBench(t, b.url, variant{})
			owners := make([]ledger.Owner, 4)
			for i := range owners {
				owners[i] = join(t, b, time.Minute)
			}
			for round := range 20 { // often enough that some meet within one statement, however busy the machine is
				firstClaims(t, owners, manyEntries(fmt.Sprint(round), 50))
			}
		})
	}
}

// firstClaims lets all owners claim the same new messages at once: each runs once.
func firstClaims(t *testing.T, owners []ledger.Owner, entries []ledger.Entry) {
	t.Helper()
	var mu sync.Mutex
	runs := make([]int, len(entries))
	var wg sync.WaitGroup
	for _, o := range owners {
		wg.Go(func() {
			claims, err := o.Claim(t.Context(), entries)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for i, c := range claims {
				if c.Answer == ledger.Run {
					runs[i]++
				}
			}
		})
	}
	wg.Wait()
	for i, n := range runs {
		if n != 1 {
			t.Fatalf("key %d ran %d times", i, n)
		}
	}
}

// TestPitfall73_SessionTime: leases, due times and expiries moved with the session's time zone and date style.
func TestPitfall73_SessionTime(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, variant{})
			b.setting(t, "timezone", "America/St_Johns")
			b.setting(t, "datestyle", "German")
			b.setting(t, "intervalstyle", "iso_8601")
			b = openBench(t, b.url, variant{mode: mode})
			o := join(t, b, time.Minute)
			e := entry("a")
			e.Window = 400 * 24 * time.Hour // over both changes of the clock
			c := claimOne(t, o, e, ledger.Run)
			sent := time.Date(2024, 3, 10, 2, 30, 0, 123456000, time.UTC)
			err := settleOne(t, o, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Fail, Dead: &ledger.Archive{
				Key: e.Key, Delivery: e.Delivery, SentAt: sent, Keep: 500 * 24 * time.Hour}})
			if err != nil {
				t.Fatal(err)
			}
			r, err := b.Get(t.Context(), e.Key)
			if err != nil {
				t.Fatal(err)
			}
			a := r.Archived[0]
			if got := r.Expiry.Sub(r.At); got != e.Window || a.Expiry.Sub(a.At) != a.Keep || !a.SentAt.Equal(sent) ||
				time.Since(r.At).Abs() > time.Minute {
				t.Fatalf("window %s, archive %s, sent %s, at %s", got, a.Expiry.Sub(a.At), a.SentAt, r.At)
			}
			if d, err := o.Beat(t.Context()); err != nil || d != time.Minute {
				t.Fatalf("beat: %s, %v", d, err)
			}
		})
	}
}

// TestPitfall85_UserEnds: a handler that ends the transaction by itself would commit its effects without the success, or
// the success without its effects.
func TestPitfall85_UserEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	exec := func(text string) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, text)
			return err
		}
	}
	for name, end := range map[string]func(context.Context, pgx.Tx) error{
		"commit":          func(ctx context.Context, tx pgx.Tx) error { _ = tx.Commit(ctx); return nil },
		"rollback":        func(ctx context.Context, tx pgx.Tx) error { _ = tx.Rollback(ctx); return nil },
		"commit text":     exec("COMMIT"),
		"commit begin":    exec("COMMIT; BEGIN"),
		"chain":           exec("COMMIT AND CHAIN"),
		"rollback text":   exec("ROLLBACK"),
		"rollback begin":  exec("ROLLBACK; BEGIN"),
		"prepared commit": exec("END"),
	} {
		t.Run(name, func(t *testing.T) {
			e := entry(name)
			a := ledger.NewAttempt(o, claimOne(t, o, e, ledger.Run).Ticket)
			err := postgres.InTx(ledger.WithAttempt(t.Context(), a), end)
			if state, _ := a.State(); err == nil || ledger.IsLost(err) || ledger.Unknown(err) || state != ledger.AttemptOpen {
				t.Fatalf("InTx: %v, state %d", err, state)
			}
			if r, err := b.Get(t.Context(), e.Key); err != nil || r.State != ledger.Pending || r.Owner == "" {
				t.Fatalf("row: %+v, %v", r, err)
			}
			// The session is clean: the next transaction on it is an ordinary one.
			a = ledger.NewAttempt(o, claimOne(t, o, e, ledger.Run).Ticket)
			if err := postgres.InTx(ledger.WithAttempt(t.Context(), a), exec("SELECT 1")); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("sql text", func(t *testing.T) {
		a := ledger.NewAttempt(o, claimOne(t, o, entry("sql"), ledger.Run).Ticket)
		err := postgres.InSQLTx(ledger.WithAttempt(t.Context(), a), func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "COMMIT")
			return err
		})
		if state, _ := a.State(); !errors.Is(err, postgres.ErrEscaped) || state != ledger.AttemptOpen {
			t.Fatalf("InSQLTx: %v, state %d", err, state)
		}
	})
}

// TestPitfall89_AsynchronousCommit: with synchronous_commit=off on the database an acknowledged settle was lost with
// the server. Here the server is stopped at once after the answer.
func TestPitfall89_AsynchronousCommit(t *testing.T) {
	t.Parallel()
	services.NeedServers(t)
	server, err := services.StartPostgres(t.Context(), services.PostgresOptions{Conf: map[string]string{
		"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	migrate(t, server.URL(), nil)
	b := openBench(t, server.URL(), variant{})
	b.exec(t, "CREATE TABLE effects (id text)")
	o := join(t, b, time.Hour)
	settled, fenced, failed := entry("settled"), entry("fenced"), entry("failed")
	c := claimOne(t, o, settled, ledger.Run)
	a := ledger.NewAttempt(o, claimOne(t, o, fenced, ledger.Run).Ticket)
	f := claimOne(t, o, failed, ledger.Run)
	for round, write := range []func() error{
		func() error { return settleOne(t, o, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}) },
		func() error {
			return inTx(ledger.WithAttempt(t.Context(), a), func(ctx context.Context) error {
				return ctx.Value(inserterKey{}).(inserter)(ctx, "effect")
			})
		},
		func() error {
			return settleOne(t, o, ledger.Settlement{Ticket: f.Ticket, Kind: ledger.Fail, Dead: &ledger.Archive{
				Key: failed.Key, Delivery: failed.Delivery, Body: []byte("body"), Keep: time.Hour}})
		},
	} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.pool.Reset()
		b.ResetConns()
		want := []ledger.State{ledger.Succeeded, ledger.Succeeded, ledger.Failed}[round]
		key := []ledger.Key{settled.Key, fenced.Key, failed.Key}[round]
		if r, err := b.Get(t.Context(), key); err != nil || r.State != want {
			t.Fatalf("after an immediate stop: %+v, %v", r, err)
		}
	}
	if n := b.number(t, "SELECT count(*) FROM effects"); n != 1 {
		t.Fatalf("%d effects", n)
	}
	durableBatches(t, b, o, "batch")
}

// TestPitfall91_RefusedAlone: one entry that the database refuses (class 23 here) failed its whole batch, again and
// again, as if the database were down.
func TestPitfall91_RefusedAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	b.exec(t, "ALTER TABLE ackledger.message ADD CHECK (id <> '13'), ADD CHECK (result IS DISTINCT FROM 'bad')")
	o := join(t, b, time.Minute)
	var entries []ledger.Entry
	for i := range 40 {
		entries = append(entries, entry(fmt.Sprint(i)))
	}
	claims, err := o.Claim(t.Context(), entries)
	if err != nil {
		t.Fatal(err)
	}
	var settlements []ledger.Settlement
	for i, c := range claims {
		var bad *ledger.InvalidError
		if refused := errors.As(c.Err, &bad); refused != (i == 13) || !refused && c.Answer != ledger.Run {
			t.Fatalf("claim %d: %+v", i, c)
		}
		if i != 13 {
			settlements = append(settlements, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed})
		}
	}
	settlements[7].Result = []byte("bad")
	errs, err := o.Settle(t.Context(), settlements)
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		var bad *ledger.InvalidError
		if errors.As(err, &bad) != (i == 7) || i != 7 && err != nil {
			t.Fatalf("settle %d: %v", i, err)
		}
	}
}

// TestPitfall106_LongRepeatableRead: heartbeats on the message's row broke an InTx under REPEATABLE READ that lasted
// longer than a lease (40001). Beats touch the owner's row alone.
func TestPitfall106_LongRepeatableRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{cfg: &postgres.Config{Isolation: pgx.RepeatableRead}})
	const lease = 400 * time.Millisecond
	o, peer := join(t, b, lease), join(t, b, time.Minute)
	a := ledger.NewAttempt(o, claimOne(t, o, entry("a"), ledger.Run).Ticket)
	begun := time.Now()
	err := inTx(ledger.WithAttempt(t.Context(), a), func(ctx context.Context) error {
		if err := ctx.Value(inserterKey{}).(inserter)(ctx, "effect"); err != nil {
			return err
		}
		tick := time.NewTicker(lease / 4)
		defer tick.Stop()
		for time.Since(begun) < 3*lease {
			<-tick.C
			if _, err := o.Beat(ctx); err != nil {
				return err
			}
			claimOne(t, peer, entry("a"), ledger.Busy)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("InTx: %v", err)
	}
	claimOne(t, peer, entry("a"), ledger.Done)
}

// TestPitfall111_OpenInsert: one key whose insert was still open made a whole batch wait, and then fail with 55P03.
func TestPitfall111_OpenInsert(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	claimOne(t, o, entry("first"), ledger.Run) // makes the scope
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `INSERT INTO ackledger.message
		(token, at, expiry, scope, state, attempts, crashes, key, fingerprint, id)
		SELECT 1, now(), now(), id, 1, 0, 0, $1::uuid, $1::uuid, '' FROM ackledger.scope`, pgKey(entry("77").Key))
	if err != nil {
		t.Fatal(err)
	}
	var entries []ledger.Entry
	for i := range 200 {
		entries = append(entries, entry(fmt.Sprint(i)))
	}
	// On a slow machine some of the others are Busy as well: the batch is split for half a second alone.
	for begun := time.Now(); len(entries) > 1; {
		claims, err := o.Claim(t.Context(), entries)
		if err != nil {
			t.Fatal(err)
		}
		var left []ledger.Entry
		for i, c := range claims {
			if c.Err != nil {
				t.Fatalf("%+v", c)
			}
			if c.Answer != ledger.Run {
				left = append(left, entries[i])
			}
		}
		if entries = left; time.Since(begun) > 20*time.Second {
			t.Fatalf("after %s %d are Busy", time.Since(begun), len(left))
		}
	}
	if len(entries) != 1 || entries[0].Key.Sum() != entry("77").Key.Sum() {
		t.Fatalf("%+v is Busy", entries)
	}
}
