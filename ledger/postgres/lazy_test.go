package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// firsts are statements that begin a transaction, each with one effect.
var firsts = map[string]func(ctx context.Context, tx pgx.Tx) error{
	"Exec": func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, insertEffect, "one")
		return errors.Join(err, affected(tag))
	},
	"Exec of two statements": func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ('one'); SELECT 1")
		return err
	},
	"Exec in another mode": func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, insertEffect, pgx.QueryExecModeSimpleProtocol, "one")
		return errors.Join(err, affected(tag))
	},
	"Query of nothing": func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, "")
		if err == nil {
			rows.Close()
			err = rows.Err()
		}
		return errors.Join(err, run(ctx, tx, insertEffect, "one"))
	},
	"Exec with names": func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects VALUES (@name)", pgx.NamedArgs{"name": "one"})
		return err
	},
	"Query": func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, insertEffect+" RETURNING 7", "one")
		if err != nil {
			return err
		}
		for rows.Next() { // closes them
			if values, err := rows.Values(); err != nil || len(values) != 1 {
				return errors.Join(err, errors.New("no value"))
			}
		}
		return errors.Join(rows.Err(), affected(rows.CommandTag()), run(ctx, tx, "SELECT 1"))
	},
	"Query whose row does not fit": func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, insertEffect+" RETURNING 'x'", "one")
		if err != nil || !rows.Next() {
			return errors.Join(err, errors.New("no row"))
		}
		var n int
		if rows.Scan(&n) == nil || rows.Err() == nil {
			return errors.New("a text fits an integer")
		}
		return run(ctx, tx, "SELECT $1::integer", 1)
	},
	"QueryRow": func(ctx context.Context, tx pgx.Tx) error {
		var n int
		if err := tx.QueryRow(ctx, insertEffect+" RETURNING 7", "one").Scan(&n); err != nil || n != 7 {
			return errors.Join(err, errors.New("no 7"))
		}
		return run(ctx, tx, "SELECT $1::integer", 1)
	},
	"QueryRow without a row": func(ctx context.Context, tx pgx.Tx) error {
		var n int
		if err := tx.QueryRow(ctx, "SELECT 1 WHERE $1", false).Scan(&n); !errors.Is(err, pgx.ErrNoRows) {
			return errors.Join(err, errors.New("there is a row"))
		}
		return run(ctx, tx, insertEffect, "one")
	},
	"SendBatch": func(ctx context.Context, tx pgx.Tx) error {
		b, n := &pgx.Batch{}, 0
		b.Queue(insertEffect, "one")
		b.Queue("SELECT 7").QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
		r := tx.SendBatch(ctx, b)
		if r.Tx() != nil {
			return errors.New("a transaction that can be ended")
		}
		if err := r.Close(); err != nil || n != 7 {
			return errors.Join(err, errors.New("no 7"))
		}
		return nil
	},
	"CopyFrom": func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"id"}, pgx.CopyFromRows([][]any{{"one"}}))
		return err
	},
	"Prepare": func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Prepare(ctx, "lazy", insertEffect)
		return errors.Join(err, run(ctx, tx, "lazy", "one"), tx.Conn().Deallocate(ctx, "lazy"))
	},
	"Begin": func(ctx context.Context, tx pgx.Tx) error {
		inner, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		return errors.Join(run(ctx, inner, insertEffect, "gone"), inner.Rollback(ctx), run(ctx, tx, insertEffect, "one"))
	},
	"LargeObjects": func(ctx context.Context, tx pgx.Tx) error {
		o := tx.LargeObjects()
		id, err := o.Create(ctx, 0)
		if err != nil {
			return err
		}
		return errors.Join(o.Unlink(ctx, id), run(ctx, tx, insertEffect, "one"))
	},
	"Conn": func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Conn().Exec(ctx, insertEffect, "one")
		return err
	},
}

func run(ctx context.Context, tx pgx.Tx, sql string, args ...any) error {
	_, err := tx.Exec(ctx, sql, args...)
	return err
}

func affected(tag pgconn.CommandTag) error {
	if tag.RowsAffected() != 1 {
		return errors.New("a statement says that it has written nothing")
	}
	return nil
}

// Whatever the first statement is, it is in the transaction: with the success where that commits, and gone where it does not.
func TestFirstStatements(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]pgx.QueryExecMode{"statements": pgx.QueryExecModeCacheStatement, "simple": pgx.QueryExecModeSimpleProtocol, "exec": pgx.QueryExecModeExec} {
		l := newBench(t, variant{mode: mode})
		o, err := l.Join(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for what, first := range firsts {
			for _, fails := range []error{nil, errors.New("boom")} {
				t.Run(name+", "+what, func(t *testing.T) {
					e := entry(what + t.Name())
					claim := claimOne(t, o, e, ledger.Run)
					before := countEffects(t, l)
					err := postgres.InTx(ledger.WithAttempt(t.Context(), ledger.NewAttempt(o, claim.Ticket)), func(ctx context.Context, tx pgx.Tx) error {
						if err := first(ctx, tx); err != nil {
							return err
						}
						return fails
					})
					if !errors.Is(err, fails) {
						t.Fatal(err)
					}
					want := 1
					if fails != nil {
						want = 0
					}
					if n := countEffects(t, l) - before; n != want {
						t.Errorf("%d effects, want %d", n, want)
					}
				})
			}
		}
	}
}

func countEffects(t *testing.T, l *bench) (n int) {
	t.Helper()
	if err := l.pool.QueryRow(t.Context(), "SELECT count(*) FROM effects").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A first statement that fails fails the transaction, though the handler says nothing of it.
func TestFirstStatementsThatFail(t *testing.T) {
	t.Parallel()
	l := newBench(t, variant{})
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for what, fail := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"no such table":        func(ctx context.Context, tx pgx.Tx) error { return run(ctx, tx, "INSERT INTO nowhere VALUES ($1)", 1) },
		"no such table, alone": func(ctx context.Context, tx pgx.Tx) error { return run(ctx, tx, "INSERT INTO nowhere VALUES (1)") },
		"not carried out":      func(ctx context.Context, tx pgx.Tx) error { return run(ctx, tx, "SELECT 1 / $1::integer", 0) },
		"a row": func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, "SELECT nothing", 1).Scan(new(int))
		},
		"rows": func(ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, "SELECT 1 / $1::integer", 0)
			if err == nil && rows.Next() {
				return nil
			}
			return rows.Err()
		},
		"a batch": func(ctx context.Context, tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.Queue(insertEffect, "one")
			b.Queue("SELECT nothing")
			return tx.SendBatch(ctx, b).Close()
		},
	} {
		t.Run(what, func(t *testing.T) {
			a := ledger.NewAttempt(o, claimOne(t, o, entry(what), ledger.Run).Ticket)
			err := postgres.InTx(ledger.WithAttempt(t.Context(), a), func(ctx context.Context, tx pgx.Tx) error {
				if fail(ctx, tx) == nil {
					t.Error("it does not fail")
				}
				if run(ctx, tx, insertEffect, "behind") == nil {
					t.Error("what comes behind it does not")
				}
				return nil
			})
			if state, _ := a.State(); err == nil || state != ledger.AttemptOpen {
				t.Errorf("%v, state %d", err, state)
			}
		})
	}
	if n := countEffects(t, l); n != 0 {
		t.Errorf("%d effects", n)
	}
}

// A first statement that pgx does not send does the transaction no harm, as any other.
func TestFirstStatementsThatAreNotSent(t *testing.T) {
	t.Parallel()
	l := newBench(t, variant{})
	o := join(t, l, time.Minute)
	over := func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx
	}
	for what, fail := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"context":        func(ctx context.Context, tx pgx.Tx) error { return run(over(ctx), tx, insertEffect, "none") },
		"context, alone": func(ctx context.Context, tx pgx.Tx) error { return run(over(ctx), tx, "SELECT 1") },
		"context, batch": func(ctx context.Context, tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.Queue(insertEffect, "none")
			return tx.SendBatch(over(ctx), b).Close()
		},
	} {
		t.Run(what, func(t *testing.T) {
			before := countEffects(t, l)
			a := ledger.NewAttempt(o, claimOne(t, o, entry(what), ledger.Run).Ticket)
			err := postgres.InTx(ledger.WithAttempt(t.Context(), a), func(ctx context.Context, tx pgx.Tx) error {
				if fail(ctx, tx) == nil {
					t.Error("it does not fail")
				}
				return run(ctx, tx, insertEffect, "one")
			})
			if n := countEffects(t, l) - before; err != nil || n != 1 {
				t.Errorf("%v, %d effects", err, n)
			}
		})
	}
}

// A handler that runs no statement has its success committed all the same.
func TestNoStatement(t *testing.T) {
	t.Parallel()
	l := newBench(t, variant{})
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	a := ledger.NewAttempt(o, claimOne(t, o, entry("none"), ledger.Run).Ticket)
	if err := postgres.InTx(ledger.WithAttempt(t.Context(), a), func(context.Context, pgx.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	claimOne(t, o, entry("none"), ledger.Done)
}

// A handler says nothing of the outage that its first statement met: nothing is done, and no attempt is counted.
func TestOutageOfTheFirstStatement(t *testing.T) {
	t.Parallel()
	for what, first := range firsts {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			l := newLossy(t, variant{})
			l.cut.cutBefore("begin")
			a := ledger.NewAttempt(l.owner, l.claim.Ticket)
			err := postgres.InTx(ledger.WithAttempt(t.Context(), a), func(ctx context.Context, tx pgx.Tx) error {
				if first(ctx, tx) == nil {
					t.Error("there is no outage")
				}
				return nil
			})
			if state, _ := a.State(); !ledger.Unavailable(err) || state != ledger.AttemptOpen || l.cut.count() != 1 {
				t.Errorf("%v, state %d, %d cuts", err, state, l.cut.count())
			}
			if n := l.effects(t); n != 0 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

// A handler that leaves rows open fails each time, and its attempts count: nothing was sent.
func TestRowsLeftOpen(t *testing.T) {
	t.Parallel()
	l := newBench(t, variant{})
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, first := range []bool{false, true} {
		a := ledger.NewAttempt(o, claimOne(t, o, entry(fmt.Sprint(first)), ledger.Run).Ticket)
		err := postgres.InTx(ledger.WithAttempt(t.Context(), a), func(ctx context.Context, tx pgx.Tx) error {
			if !first {
				if err := run(ctx, tx, insertEffect, "one"); err != nil {
					return err
				}
			}
			_, err := tx.Query(ctx, "SELECT generate_series(1, $1::integer)", 1000)
			return err
		})
		if state, _ := a.State(); err == nil || ledger.Unknown(err) || ledger.Unavailable(err) || state != ledger.AttemptOpen {
			t.Errorf("%v, state %d", err, state)
		}
	}
	if n := countEffects(t, l); n != 0 {
		t.Errorf("%d effects", n)
	}
}

// A transaction that ends its server process with its COMMIT has rolled back each time: it is not asked for again for ever.
func TestCommitThatEndsItsProcess(t *testing.T) {
	t.Parallel()
	l := newBench(t, variant{})
	l.exec(t, `CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER dies AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die()`)
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	a := ledger.NewAttempt(o, claimOne(t, o, entry("dies"), ledger.Run).Ticket)
	err = postgres.InTx(ledger.WithAttempt(t.Context(), a), func(ctx context.Context, tx pgx.Tx) error { return run(ctx, tx, insertEffect, "one") })
	if state, _ := a.State(); err == nil || ledger.Unknown(err) || state != ledger.AttemptOpen {
		t.Errorf("%v, state %d", err, state)
	}
}

// An argument that is not what its statement takes costs pgx the connection, in a batch. That is a mistake of the handler's, not an outage.
func TestArgumentsThatDoNotFit(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]pgx.QueryExecMode{"statements": pgx.QueryExecModeCacheStatement, "describe": pgx.QueryExecModeCacheDescribe,
		"described": pgx.QueryExecModeDescribeExec, "simple": pgx.QueryExecModeSimpleProtocol, "exec": pgx.QueryExecModeExec} {
		l := newBench(t, variant{mode: mode})
		o := join(t, l, time.Minute)
		for what, fail := range map[string]func(ctx context.Context, tx pgx.Tx) error{
			"first": func(ctx context.Context, tx pgx.Tx) error { return run(ctx, tx, insertEffect, make(chan int)) },
			"batch": func(ctx context.Context, tx pgx.Tx) error {
				b := &pgx.Batch{}
				b.Queue(insertEffect, "one")
				b.Queue(insertEffect, make(chan int))
				return errors.Join(run(ctx, tx, insertEffect, "one"), tx.SendBatch(ctx, b).Close())
			},
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				a := ledger.NewAttempt(o, claimOne(t, o, entry(name+what), ledger.Run).Ticket)
				err := postgres.InTx(ledger.WithAttempt(t.Context(), a), fail)
				if state, _ := a.State(); err == nil || ledger.Unavailable(err) || ledger.Unknown(err) || state != ledger.AttemptOpen {
					t.Errorf("%v, state %d", err, state)
				}
			})
		}
		if n := countEffects(t, l); n != 0 {
			t.Errorf("%d effects", n)
		}
	}
}

// TestPitfall175_EscapeInTheFirstMessage: in the simple protocol, BEGIN went in one message with a first statement that commits and begins
// again. All of a message has one now(), so that the escape was not seen, and the success was written apart from the effects.
func TestPitfall175_EscapeInTheFirstMessage(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]pgx.QueryExecMode{"statements": pgx.QueryExecModeCacheStatement, "simple": pgx.QueryExecModeSimpleProtocol, "exec": pgx.QueryExecModeExec} {
		l := newBench(t, variant{mode: mode})
		o := join(t, l, time.Minute)
		for what, escape := range map[string]func(ctx context.Context, tx pgx.Tx) error{
			"batch": func(ctx context.Context, tx pgx.Tx) error {
				b := &pgx.Batch{}
				b.Queue(insertEffect, "one")
				b.Queue("COMMIT")
				b.Queue("BEGIN")
				return tx.SendBatch(ctx, b).Close()
			},
			"text": func(ctx context.Context, tx pgx.Tx) error {
				return run(ctx, tx, insertEffect+"; COMMIT; BEGIN", pgx.QueryExecModeSimpleProtocol, "one")
			},
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				e := entry(name + what)
				a := ledger.NewAttempt(o, claimOne(t, o, e, ledger.Run).Ticket)
				err := postgres.InTx(ledger.WithAttempt(t.Context(), a), escape)
				if state, _ := a.State(); !errors.Is(err, postgres.ErrEscaped) || state != ledger.AttemptOpen {
					t.Fatalf("InTx: %v, state %d", err, state)
				}
				if r, err := l.Get(t.Context(), e.Key); err != nil || r.State != ledger.Pending {
					t.Fatalf("row: %+v, %v", r, err)
				}
			})
		}
	}
}

// A handler without a statement, whose one flush is late: of its server process nothing is known.
func TestLateFenceWithoutAStatement(t *testing.T) {
	t.Parallel()
	l := newLossy(t, variant{mode: pgx.QueryExecModeExec})
	l.cut.delay()
	a := ledger.NewAttempt(l.owner, l.claim.Ticket)
	abort(t, a, postgres.InTx(ledger.WithAttempt(t.Context(), a), func(context.Context, pgx.Tx) error { return nil }), true)
}
