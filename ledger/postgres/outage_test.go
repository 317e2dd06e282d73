package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// The database breaks off under a handler, whose attempts ran out during a restart. Such an error is told from the
// handler's own, a timeout of somebody else's service among them.
func TestUnavailableIsTheDatabaseOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	const suicide = "SELECT pg_terminate_backend(pg_backend_pid())"
	theirs := &net.OpError{Op: "dial", Err: errors.New("a payment service is away")}
	cases := map[string]struct {
		run  func(ctx context.Context) error
		want bool
	}{
		"pgx, broken off": {func(ctx context.Context) error {
			return postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, suicide)
				return err
			})
		}, true},
		"pgx, broken off, error swallowed": {func(ctx context.Context) error {
			return postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
				_, _ = tx.Exec(ctx, suicide)
				return nil
			})
		}, true},
		"sql, broken off": {func(ctx context.Context) error {
			return postgres.InSQLTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, suicide)
				return err
			})
		}, true},
		"pgx, somebody else's": {func(ctx context.Context) error {
			return postgres.InTx(ctx, func(context.Context, pgx.Tx) error { return theirs })
		}, false},
		"sql, somebody else's": {func(ctx context.Context) error {
			return postgres.InSQLTx(ctx, func(context.Context, *sql.Tx) error { return theirs })
		}, false},
		"pgx, refused statement": {func(ctx context.Context) error {
			return postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, "SELECT 1/0")
				return err
			})
		}, false},
		"sql, refused statement": {func(ctx context.Context) error {
			return postgres.InSQLTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "SELECT 1/0")
				return err
			})
		}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := ledger.NewAttempt(o, claimOne(t, o, entry(name), ledger.Run).Ticket)
			err := c.run(ledger.WithAttempt(t.Context(), a))
			state, why := a.State()
			if err == nil || ledger.Unavailable(err) != c.want || ledger.Unavailable(why) != c.want || state != ledger.AttemptOpen {
				t.Errorf("unavailable %v, want %v; attempt %v (%v): %v", ledger.Unavailable(err), c.want, state, why, err)
			}
		})
	}
}

// A fence got no answer, of a connection that was cut without a word: InTx gave it up at CommitLimit, and the handler, which
// had done everything, was charged with an attempt. With its COMMIT it may still be on its way.
func TestUnavailableIsASilentFence(t *testing.T) {
	t.Parallel()
	bothTxs(t, func(t *testing.T, v variant) {
		v.cfg = &postgres.Config{CommitLimit: time.Second}
		if v.sql {
			v.mode = pgx.QueryExecModeExec // a statement is one message
		}
		late := !v.sql && !v.altered
		l := newLossy(t, v)
		defer l.cut.closeAll() // else pgx waits for the silent connection
		l.cut.freezeAfter("INSERT INTO effects")
		a, err := l.attempt(t)
		state, why := a.State()
		if late {
			abort(t, a, err, true)
		} else if !ledger.Unavailable(err) || !ledger.Unavailable(why) || ledger.Unknown(err) || state != ledger.AttemptOpen {
			t.Errorf("InTx: %v, state %d (%v); want an outage", err, state, why)
		}
		if n := l.effects(t); n != 0 || l.cut.count() != 1 {
			t.Errorf("%d effects, %d cuts", n, l.cut.count())
		}
		if err := settleOne(t, l.owner, ledger.Settlement{Ticket: l.claim.Ticket, Kind: ledger.Release}); err != nil {
			t.Error(err)
		}
	})
}

// A handler whose own time is up while its fence gets no answer is late, whatever the database did. (In a range that has changed: with its
// COMMIT the fence may still be on its way.)
func TestSilentFenceOfALateHandler(t *testing.T) {
	t.Parallel()
	l := newLossy(t, variant{log: true, altered: true, mode: pgx.QueryExecModeExec, cfg: &postgres.Config{CommitLimit: 100 * time.Millisecond}})
	defer l.cut.closeAll()
	l.cut.freezeAfter("INSERT INTO effects")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := ledger.NewAttempt(l.owner, l.claim.Ticket)
	err := inTx(ledger.WithAttempt(ctx, a), func(ctx context.Context) error {
		defer cancel()
		return oneEffect(ctx)
	})
	if state, _ := a.State(); err == nil || ledger.Unavailable(err) || state != ledger.AttemptOpen || l.cut.count() != 1 {
		t.Errorf("InTx: %v, state %d, %d cuts", err, state, l.cut.count())
	}
}
