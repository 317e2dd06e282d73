package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// runs has a request whose transaction cannot be committed run until it has failed for good, and says how often that was.
func runs(t *testing.T, l ledger.Ledger, do func(ctx context.Context) error) (n int) {
	t.Helper()
	r, err := idempotency.New(l, idempotency.Options{Attempts: 3})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	poll(t, "the runner runs", func() bool { return r.Health().Ready })
	for range 10 {
		_, err := r.Do(t.Context(), idempotency.Request{Scope: "s", Key: t.Name()}, func(ctx context.Context) (idempotency.Result, error) {
			n++
			return idempotency.Result{}, do(ctx)
		})
		if _, failed := errors.AsType[*idempotency.FailedError](err); failed {
			return n
		}
		if err == nil {
			t.Fatal("it succeeded")
		}
	}
	return n
}

// TestPitfall183_MistakesAreNoOutages: a handler whose transaction can never commit ran for ever, and paused all others: its mistake was
// taken for an outage, or for an answer that was lost, which count no attempt.
func TestPitfall183_MistakesAreNoOutages(t *testing.T) {
	t.Parallel()
	query := func(ctx context.Context, tx pgx.Tx, sql string) error {
		rows, err := tx.Query(ctx, sql)
		if err == nil {
			rows.Close()
		}
		return err
	}
	in := func(fn func(ctx context.Context, tx pgx.Tx) error) func(context.Context) error {
		return func(ctx context.Context) error { return postgres.InTx(ctx, fn) }
	}
	l := newBench(t, variant{})
	for name, do := range map[string]func(context.Context) error{
		"COMMIT first": in(func(ctx context.Context, tx pgx.Tx) error { return query(ctx, tx, "COMMIT") }),
		"COMMIT in the first batch": in(func(ctx context.Context, tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.Queue(insertEffect, "one")
			b.Queue("END")
			return tx.SendBatch(ctx, b).Close()
		}),
		"ROLLBACK first": in(func(ctx context.Context, tx pgx.Tx) error { return query(ctx, tx, "ROLLBACK") }),
		"read only":      in(func(ctx context.Context, tx pgx.Tx) error { return run(ctx, tx, "SET TRANSACTION READ ONLY") }),
		"read only, sql": func(ctx context.Context) error {
			return postgres.InSQLTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "SET TRANSACTION READ ONLY")
				return err
			})
		},
		"rows left open, sql": func(ctx context.Context) error {
			return postgres.InSQLTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
				rows, err := tx.QueryContext(ctx, "SELECT generate_series(1, 100000)")
				if err != nil || !rows.Next() {
					return errors.Join(err, errors.New("no rows"))
				}
				return nil // with the rows open
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			if n := runs(t, l, do); n != 3 {
				t.Errorf("it ran %d times, want 3", n)
			}
		})
	}
}

// TestPitfall182_ConnWithoutATransaction: where the transaction could not begin, its Conn was a connection without one: what was done with
// it stayed, and the handler ran again.
func TestPitfall182_ConnWithoutATransaction(t *testing.T) {
	t.Parallel()
	l := newBench(t, variant{})
	o := join(t, l, time.Minute)
	for name, use := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"Conn": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Conn().Exec(ctx, insertEffect, "one")
			return err
		},
		"LargeObjects": func(ctx context.Context, tx pgx.Tx) error {
			objects := tx.LargeObjects()
			_, err := objects.Create(ctx, 0)
			return err
		},
	} {
		ctx, end := context.WithCancel(t.Context()) // of a lost lease, a time limit, a drain
		a := ledger.NewAttempt(o, claimOne(t, o, entry(name), ledger.Run).Ticket)
		err := postgres.InTx(ledger.WithAttempt(ctx, a), func(ctx context.Context, tx pgx.Tx) error {
			end()
			if err := use(context.WithoutCancel(ctx), tx); err == nil {
				t.Errorf("%s: it can be used", name)
			}
			return nil
		})
		if state, _ := a.State(); err == nil || state != ledger.AttemptOpen {
			t.Errorf("%s: %v, state %d", name, err, state)
		}
	}
	if n := countEffects(t, l); n != 0 {
		t.Errorf("%d effects", n)
	}
}

// TestPitfall184_KeptTransactions: a transaction that a handler had kept could be used once it was over, in what its connection did next.
func TestPitfall184_KeptTransactions(t *testing.T) {
	t.Parallel()
	l := newBench(t, variant{})
	o := join(t, l, time.Minute)
	for name, begin := range map[string]func(ctx context.Context, tx pgx.Tx) (pgx.Tx, error){
		"no statement": func(_ context.Context, tx pgx.Tx) (pgx.Tx, error) { return tx, nil },
		"a statement":  func(ctx context.Context, tx pgx.Tx) (pgx.Tx, error) { return tx, run(ctx, tx, "SELECT $1::integer", 1) },
		"by itself":    func(ctx context.Context, tx pgx.Tx) (pgx.Tx, error) { return tx, run(ctx, tx, "SELECT 1") },
		"a savepoint":  func(ctx context.Context, tx pgx.Tx) (pgx.Tx, error) { return tx.Begin(ctx) },
	} {
		var kept pgx.Tx
		in := func(key string, fn func(ctx context.Context, tx pgx.Tx) error) error {
			a := ledger.NewAttempt(o, claimOne(t, o, entry(name+key), ledger.Run).Ticket)
			return postgres.InTx(ledger.WithAttempt(t.Context(), a), fn)
		}
		err := in("first", func(ctx context.Context, tx pgx.Tx) (err error) {
			kept, err = begin(ctx, tx)
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		use := func() {
			b := &pgx.Batch{}
			b.Queue(insertEffect, "kept")
			_, errExec := kept.Exec(t.Context(), insertEffect, "kept")
			for what, err := range map[string]error{"Exec": errExec, "QueryRow": kept.QueryRow(t.Context(), insertEffect+" RETURNING 1", "kept").Scan(new(int)),
				"SendBatch": kept.SendBatch(t.Context(), b).Close()} {
				if !errors.Is(err, pgx.ErrTxClosed) {
					t.Errorf("%s: %s: %v", name, what, err)
				}
			}
		}
		use()
		err = in("second", func(ctx context.Context, tx pgx.Tx) error {
			if err := run(ctx, tx, insertEffect, "second"); err != nil {
				return err
			}
			use()
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if n := l.number(t, "SELECT count(*) FROM effects WHERE id = 'kept'"); n != 0 {
		t.Errorf("%d effects of transactions that were over", n)
	}
}
