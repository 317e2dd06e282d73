package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// batchAttempt claims n messages, and makes the attempt of their handler.
func batchAttempt(t *testing.T, o ledger.Owner, name string, n int) (*ledger.Attempt, []ledger.Entry) {
	t.Helper()
	entries, tickets := make([]ledger.Entry, n), make([]ledger.Ticket, n)
	for i := range entries {
		entries[i] = entry(fmt.Sprintf("%s-%d", name, i))
		tickets[i] = claimOne(t, o, entries[i], ledger.Run).Ticket
	}
	return ledger.NewBatchAttempt(o, tickets), entries
}

// oneEffect is a handler with one effect.
func oneEffect(ctx context.Context) error { return ctx.Value(inserterKey{}).(inserter)(ctx, "effect") }

func runTx(l *lossy) func(context.Context, func(context.Context) error) error {
	if l.sql {
		return inSQLTx
	}
	return inTx
}

// TestPitfall25_BatchCommitAnswerLost: the COMMIT of a batch landed, and its answer was lost. All rows are read, and say
// so; nothing of the batch runs again.
func TestPitfall25_BatchCommitAnswerLost(t *testing.T) {
	t.Parallel()
	bothTxs(t, func(t *testing.T, v variant) {
		l := newLossy(t, v)
		a, entries := batchAttempt(t, l.owner, "b", 20)
		l.cut.cutAfter("commit\x00", false)
		err := runTx(l)(ledger.WithAttempt(t.Context(), a), oneEffect)
		if state, _ := a.State(); err != nil || state != ledger.AttemptSucceeded || l.cut.count() != 1 {
			t.Fatalf("InTx: %v, state %d, %d cuts", err, state, l.cut.count())
		}
		for _, e := range entries {
			claimOne(t, l.owner, e, ledger.Done)
		}
		if n := l.effects(t); n != 1 {
			t.Fatalf("%d effects", n)
		}
	})
}

// TestPitfall119_BatchCommitAborted: the COMMIT of a batch never arrived. Nothing of it is marked as succeeded.
func TestPitfall119_BatchCommitAborted(t *testing.T) {
	t.Parallel()
	bothTxs(t, func(t *testing.T, v variant) {
		l := newLossy(t, v)
		a, entries := batchAttempt(t, l.owner, "b", 20)
		l.cut.cutBefore("commit\x00")
		err := runTx(l)(ledger.WithAttempt(t.Context(), a), oneEffect)
		abort(t, a, err, false)
		if n := l.effects(t); n != 0 || l.cut.count() != 1 {
			t.Fatalf("%d effects, %d cuts", n, l.cut.count())
		}
		for i, e := range entries {
			if err := settleOne(t, l.owner, ledger.Settlement{Ticket: a.Tickets()[i], Kind: ledger.Release}); err != nil {
				t.Fatal(err)
			}
			claimOne(t, l.owner, e, ledger.Run)
		}
	})
}

// TestUnknownBatchWaitsForARow: while every row of a batch is locked, perhaps by its own transaction that goes on behind
// a broken connection, nothing is known of it; one row that is free tells of all.
func TestUnknownBatchWaitsForARow(t *testing.T) {
	t.Parallel()
	l := newLossy(t, variant{mode: pgx.QueryExecModeExec, cfg: &postgres.Config{CommitLimit: time.Minute}})
	behind, err := url.Parse(l.url)
	if err != nil {
		t.Fatal(err)
	}
	behind.Host = l.cut.target
	direct := openBench(t, behind.String(), variant{})
	a, entries := batchAttempt(t, l.owner, "b", 3)
	l.cut.cutAfter("commit\x00", true) // and from then on nobody gets through
	l.cut.closeLater()
	done := make(chan error, 1)
	go func() { done <- inTx(ledger.WithAttempt(t.Context(), a), oneEffect) }()
	poll(t, "the commit", func() bool { return l.cut.count() == 1 })
	lock := func(entries []ledger.Entry) pgx.Tx {
		tx, err := direct.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if _, err := tx.Exec(t.Context(), "SELECT FROM ackledger.message WHERE key = $1 FOR UPDATE", pgKey(e.Key)); err != nil {
				t.Fatal(err)
			}
		}
		return tx
	}
	all := lock(entries)
	l.cut.mend()
	var first, last time.Time
	poll(t, "a second reading", func() bool {
		err := direct.pool.QueryRow(t.Context(), `SELECT coalesce(max(query_start), 'epoch') FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE '%AS a(key, place)%' AND pid <> pg_backend_pid()`).Scan(&last)
		if err != nil {
			t.Fatal(err)
		}
		if first.IsZero() && last.Unix() > 0 {
			first = last
		}
		return last.After(first)
	})
	select {
	case err := <-done:
		t.Fatalf("InTx knows what became of it (%v) although all its rows are locked", err)
	default:
	}
	if err := all.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	most := lock(entries[:2])
	defer func() { _ = most.Rollback(context.Background()) }()
	if err := <-done; err != nil {
		t.Fatalf("InTx: %v", err)
	}
	if state, _ := a.State(); state != ledger.AttemptSucceeded {
		t.Fatalf("state %d", state)
	}
}

// TestPitfall85_BatchUserEnds: a batch handler that ends the transaction by itself settles none of its messages.
func TestPitfall85_BatchUserEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	for name, text := range map[string]string{
		"commit": "COMMIT", "commit begin": "COMMIT; BEGIN", "chain": "COMMIT AND CHAIN", "rollback": "ROLLBACK",
	} {
		for kind, run := range map[string]func(context.Context) error{
			"pgx": func(ctx context.Context) error {
				return postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
					_, err := tx.Exec(ctx, text)
					return err
				})
			},
			"sql": func(ctx context.Context) error {
				return postgres.InSQLTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
					_, err := tx.ExecContext(ctx, text)
					return err
				})
			},
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				a, entries := batchAttempt(t, o, name+kind, 3)
				err := run(ledger.WithAttempt(t.Context(), a))
				if state, _ := a.State(); !errors.Is(err, postgres.ErrEscaped) || state != ledger.AttemptOpen {
					t.Fatalf("InTx: %v, state %d", err, state)
				}
				for _, e := range entries {
					if r, err := b.Get(t.Context(), e.Key); err != nil || r.State != ledger.Pending || r.Owner == "" {
						t.Fatalf("row: %+v, %v", r, err)
					}
				}
			})
		}
	}
}

// TestBatchRepeatableRead: a row of the batch is written after the transaction's snapshot. Nothing is committed, and the
// batch is lost or to be run again, as its rows say; a success of somebody else is not taken for its own.
func TestBatchRepeatableRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{cfg: &postgres.Config{Isolation: pgx.RepeatableRead}})
	for name, kind := range map[string]ledger.SettleKind{"released": ledger.Release, "succeeded": ledger.Succeed} {
		for _, n := range []int{1, 4} {
			o := join(t, b, time.Minute)
			a, entries := batchAttempt(t, o, fmt.Sprint(name, n), n)
			err := inTx(ledger.WithAttempt(t.Context(), a), func(ctx context.Context) error {
				if err := oneEffect(ctx); err != nil {
					return err
				}
				return settleOne(t, o, ledger.Settlement{Ticket: a.Tickets()[n-1], Kind: kind})
			})
			want := ledger.AttemptLost
			if state, _ := a.State(); !ledger.IsLost(err) || state != want {
				t.Fatalf("%s, %d messages: %v, state %d, want %d", name, n, err, state, want)
			}
			if got := b.number(t, "SELECT count(*) FROM effects"); got != 0 {
				t.Fatalf("%s: %d effects", name, got)
			}
			for _, e := range entries[:n-1] {
				if r, err := b.Get(t.Context(), e.Key); err != nil || r.State != ledger.Pending || r.Owner != o.ID() {
					t.Fatalf("%s: row: %+v, %v", name, r, err)
				}
			}
		}
	}
}

// TestBatchRefusedResult: a result that the database refuses spoils the batch, and is no outage: its messages run singly.
func TestBatchRefusedResult(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	b.exec(t, "ALTER TABLE ackledger.message ADD CHECK (result IS DISTINCT FROM 'bad')")
	a, _ := batchAttempt(t, join(t, b, time.Minute), "b", 4)
	err := inTx(ledger.WithAttempt(t.Context(), a), func(ctx context.Context) error {
		return errors.Join(oneEffect(ctx), a.SetResultAt(2, []byte("bad")))
	})
	if state, _ := a.State(); err == nil || ledger.Unavailable(err) || ledger.IsLost(err) || state != ledger.AttemptOpen {
		t.Fatalf("InTx: %v, state %d", err, state)
	}
	if n := b.number(t, "SELECT count(*) FROM effects"); n != 0 {
		t.Fatalf("%d effects", n)
	}
}
