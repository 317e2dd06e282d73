package postgres_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// TestDeliveriesOfOldSchemas: a schema without counts says so to who counts, and serves everything else; once it is migrated, the
// roles of before count and read without a grant anew, and one that only read still does no more.
func TestDeliveriesOfOldSchemas(t *testing.T) {
	t.Parallel()
	admin, role := asRole(t, postgres.Worker, false)
	reader := "reader_" + role.pool.Config().ConnConfig.User
	admin.exec(t, "CREATE ROLE "+reader)
	defer admin.exec(t, "DROP OWNED BY "+reader+"; DROP ROLE "+reader)
	admin.exec(t, "GRANT SELECT ON ackledger.maintenance TO "+reader)
	conn, err := pgx.ParseConfig(admin.url)
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.MigrateTo(t.Context(), conn, 11); err != nil {
		t.Fatal(err)
	}
	counts := []ledger.Deliveries{{Scope: "s", Misses: 2, Hits: 1}}
	if err := role.CountDeliveries(t.Context(), counts); ledger.Unknown(err) || !ledger.Unusable(err) || !strings.Contains(err.Error(), "run postgres.Migrate") {
		t.Errorf("counted without a table: %v", err)
	}
	if s, err := role.Stats(t.Context()); err != nil || len(s.Deliveries) != 0 || len(s.Tables) == 0 {
		t.Errorf("stats without a table: %+v, %v", s, err)
	}
	if err := postgres.Migrate(t.Context(), conn, ""); err != nil {
		t.Fatal(err)
	}
	if err := role.CountDeliveries(t.Context(), counts); err != nil {
		t.Errorf("by a role of before: %v", err)
	}
	if s, err := role.Stats(t.Context()); err != nil || len(s.Deliveries) != 1 || s.Deliveries[0].Misses != 2 || s.Deliveries[0].Hits != 1 {
		t.Errorf("stats by a role of before: %+v, %v", s.Deliveries, err)
	}
	may := "SELECT (has_table_privilege('" + reader + "', 'ackledger.delivery', '%'))::int"
	for right, want := range map[string]int{"SELECT": 1, "INSERT": 0, "UPDATE": 0} {
		if n := admin.number(t, strings.Replace(may, "%", right, 1)); n != want {
			t.Errorf("who only read: %s is %d, want %d", right, n, want)
		}
	}
}

// TestDeliveriesWhoseAnswerIsLost: who cannot know whether his counts were added is told so.
func TestDeliveriesWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	cut, url := newCutter(t, b.url)
	through := openBench(t, url, variant{mode: pgx.QueryExecModeExec})
	cut.cutAfter("excluded.misses", false)
	if err := through.CountDeliveries(t.Context(), []ledger.Deliveries{{Scope: "s", Misses: 2}}); !ledger.Unknown(err) {
		t.Errorf("the answer was lost: %v", err)
	}
	if n := b.number(t, "SELECT sum(misses) FROM ackledger.delivery"); n != 2 || cut.count() != 1 {
		t.Errorf("%d counted, %d connections cut", n, cut.count())
	}
}
