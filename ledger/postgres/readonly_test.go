package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/integration/services"
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
			return
		}
		if n == 10 {
			t.Fatalf("the new primary is there: %v", err)
		}
	}
}
