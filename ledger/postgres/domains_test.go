package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// Two teams that do not trust each other, in one database: each works in its own schema, and has no way into the other's.
func TestASchemaForEachTeam(t *testing.T) {
	t.Parallel()
	db := services.Postgres(t)
	admin := openBench(t, db.URL, variant{})
	conn := admin.pool.Config().ConnConfig
	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	teams := map[string]*bench{}
	for _, team := range []string{"payments", "shipping"} {
		role := team + "_" + strings.TrimPrefix(u.Path, "/")
		admin.exec(t, "CREATE ROLE "+role+" LOGIN")
		t.Cleanup(func() {
			for _, sql := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
				if _, err := admin.pool.Exec(context.Background(), sql); err != nil {
					t.Errorf("%s: %v", sql, err)
				}
			}
		})
		if err := postgres.Migrate(t.Context(), conn, team); err != nil {
			t.Fatal(err)
		}
		if err := postgres.Grant(t.Context(), conn, team, role, postgres.Worker); err != nil {
			t.Fatal(err)
		}
		u.User = url.User(role)
		teams[team] = openBench(t, u.String(), variant{cfg: &postgres.Config{Schema: team}})
	}
	same := ledger.Entry{Key: ledger.Key{Scope: "s", ID: []byte("m")}, Delivery: []byte("d"), Window: time.Hour}
	for team, b := range teams {
		o, err := b.Join(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		claims, err := o.Claim(t.Context(), []ledger.Entry{same})
		if err != nil || claims[0].Answer != ledger.Run {
			t.Fatalf("%s: %+v, %v: it should know nothing of the other's message", team, claims, err)
		}
	}
	pool := teams["payments"].pool
	into, err := postgres.New(t.Context(), pool, &postgres.Config{Schema: "shipping"})
	if err != nil {
		t.Fatal(err)
	}
	defer into.Close()
	if _, err := into.Join(t.Context(), time.Minute); !ledger.Unusable(err) {
		t.Errorf("a worker of the other team joins: %v", err)
	}
	tables, err := admin.pool.Query(t.Context(), "SELECT tablename::text FROM pg_tables WHERE schemaname = 'shipping'")
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(tables, pgx.RowTo[string])
	if err != nil || len(names) < 8 {
		t.Fatalf("tables: %q, %v", names, err)
	}
	for _, name := range names {
		_, err := pool.Exec(t.Context(), "SELECT FROM shipping."+name)
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "42501" { // insufficient_privilege
			t.Errorf("%s of the other team: %v", name, err)
		}
	}
}
