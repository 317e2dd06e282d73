package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/ledger/postgres"
)

// The size that matters to handlers is that of the caller's pool, not of the ledger's own.
func TestTxConns(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/nowhere?pool_max_conns=7") // nothing connects
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	l, err := postgres.New(t.Context(), pool, &postgres.Config{MaxConns: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if n := l.TxConns(); n != 7 {
		t.Errorf("InTx has %d connections, want 7", n)
	}
}
