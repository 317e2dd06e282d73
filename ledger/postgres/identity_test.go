package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/ledger/storage"
)

// Two ledgers of one database are two ledgers; a schema from before there were ids has none until it is migrated, and the one
// that it then gets stays.
func TestLedgerID(t *testing.T) {
	t.Parallel()
	db := services.Postgres(t)
	conn, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.MigrateTo(t.Context(), conn, 9); err != nil {
		t.Fatal(err)
	}
	b := openBench(t, db.URL, variant{})
	ask := func(b *bench) string {
		t.Helper()
		id, err := b.ID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	if id := ask(b); id != "" {
		t.Errorf("a schema of version 9 has the id %q", id)
	}
	for _, schema := range []string{"", "other", ""} {
		if err := postgres.Migrate(t.Context(), conn, schema); err != nil {
			t.Fatal(err)
		}
	}
	id := ask(b)
	var other string
	if err := b.pool.QueryRow(t.Context(), "SELECT ledger::text FROM other.meta").Scan(&other); err != nil {
		t.Fatal(err)
	}
	if !storage.IsLedgerID(id) || id == other || ask(openBench(t, db.URL, variant{})) != id {
		t.Errorf("ids %q and %q", id, other)
	}
	b.exec(t, "DROP SCHEMA ackledger CASCADE")
	if _, err := b.ID(t.Context()); !ledger.Unusable(err) {
		t.Errorf("without tables: %v", err)
	}
}
