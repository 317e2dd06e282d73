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
