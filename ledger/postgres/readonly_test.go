package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// A failover is under way: what the ledger connects to answers that it is read-only, and a moment later the name stands for
// the new primary. A session that was made before stays as it is.
func TestReadOnlyServerIsLeft(t *testing.T) {
	t.Parallel()
	db := services.Postgres(t)
	migrate(t, db.URL, nil)
	alter := func(setting string) {
		t.Helper()
		c, err := pgx.Connect(t.Context(), db.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }()
		for _, sql := range []string{"SET default_transaction_read_only = off", "ALTER DATABASE " + pgx.Identifier{db.Database}.Sanitize() + setting} {
			if _, err := c.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	pool, err := pgxpool.New(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	l, err := postgres.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	alter(" SET default_transaction_read_only = on")
	if err := pool.Ping(t.Context()); err != nil { // the application's connection is there too
		t.Fatal(err)
	}
	if _, err := l.Join(t.Context(), time.Minute); err == nil {
		t.Fatal("joined a server that is read-only")
	}
	alter(" RESET default_transaction_read_only")
	for n := 1; ; n++ { // one connection of the pool is found out at a time
		o, err := l.Join(t.Context(), time.Minute)
		if err == nil {
			_, err = o.Beat(t.Context())
		}
		if err == nil {
			inTxLeaves(t, o)
			return
		}
		if n == 10 {
			t.Fatalf("the new primary is there: %v", err)
		}
	}
}

// inTxLeaves: the handler's transaction met the old primary, which is no fault of its message, and the next one does not.
func inTxLeaves(t *testing.T, o ledger.Owner) {
	t.Helper()
	ticket := claimOne(t, o, entry("a"), ledger.Run).Ticket
	run := func() error {
		return postgres.InTx(ledger.WithAttempt(t.Context(), ledger.NewAttempt(o, ticket)), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "CREATE TABLE written (n int)")
			return err
		})
	}
	if err := run(); !ledger.Unavailable(err) {
		t.Errorf("on a server that is read-only: %v, want one that is of the database", err)
	}
	if err := run(); err != nil {
		t.Errorf("the attempt after it: %v", err)
	}
}
