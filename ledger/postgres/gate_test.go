package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger/ledgertest"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// versions are the PostgreSQLs that the suite runs on.
var versions = map[string]variant{"18": {}, "14": {old: true}}

// pooledBy starts a pooler before a database, and returns the URL that leads through it.
func pooledBy(t testing.TB, mode, database string, connections int) string {
	t.Helper()
	p, err := services.StartPgBouncerIn(t.Context(), mode, database, connections)
	if errors.Is(err, services.ErrNoPgBouncer) {
		services.Missing(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	url, err := p.URL(database)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// identified is what a URL leads to.
func identified(t *testing.T, url string) postgres.Server {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }()
	s, err := postgres.Identify(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPostgreSQLIsAdmitted: the real ones, alone and behind poolers. A migration needs a session of its own, all else a
// transaction.
func TestPostgreSQLIsAdmitted(t *testing.T) {
	t.Parallel()
	for name, v := range versions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, v)
			if s := identified(t, b.url); s.Engine != postgres.PostgreSQL || s.Refused != nil || s.Pooled || !strings.HasPrefix(s.Version, "PostgreSQL "+name) {
				t.Errorf("it is %+v", s)
			}
			for mode, refused := range map[string]map[string]postgres.Engine{
				"session":     {},
				"transaction": {"Migrate": postgres.TransactionPooler},
				"statement":   {"Migrate": postgres.StatementPooler, "Join": postgres.StatementPooler, "Check": postgres.StatementPooler},
			} {
				t.Run(mode, func(t *testing.T) {
					t.Parallel()
					url := pooledBy(t, mode, b.url, 3)
					if s := identified(t, url); s.Engine != postgres.PostgreSQL || s.Refused != nil || !s.Pooled {
						t.Errorf("it is %+v", s)
					}
					for who, open := range opens {
						err := open(t.Context(), url)
						if engine, not := refused[who]; not {
							refusedAs(t, err, engine, "PostgreSQL "+name)
						} else if err != nil {
							t.Errorf("%s: %v", who, err)
						}
					}
				})
			}
		})
	}
}

// A pooler whose only server is taken by the connection that asks is in session mode, as far as can be known.
func TestPoolerWithOneServer(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	for mode, refused := range map[string]bool{"session": false, "transaction": true} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			err := opens["Migrate"](t.Context(), pooledBy(t, mode, b.url, 1))
			if refused {
				refusedAs(t, err, postgres.TransactionPooler, "PostgreSQL")
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// Migrate set search_path and time limits for its session. Behind a pooler in transaction mode these stayed in the server's session:
// other programs found the ledger's tables in place of theirs, and lost connections that idled for ten seconds. It is refused now,
// before it sets anything.
func TestPitfall192_MigrateBehindAPooler(t *testing.T) {
	t.Parallel()
	db := services.Postgres(t)
	url := pooledBy(t, "transaction", db.URL, 2)
	program, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close(context.WithoutCancel(t.Context())) }()
	const asked = `SELECT current_setting('search_path') || ' ' || current_setting('idle_session_timeout')`
	var before string
	if err := program.QueryRow(t.Context(), asked, pgx.QueryExecModeSimpleProtocol).Scan(&before); err != nil {
		t.Fatal(err)
	}
	refusedAs(t, opens["Migrate"](t.Context(), url), postgres.TransactionPooler, "PostgreSQL")
	for range 10 {
		var after string
		if err := program.QueryRow(t.Context(), asked, pgx.QueryExecModeSimpleProtocol).Scan(&after); err != nil || after != before {
			t.Fatalf("another program's session has %q now, had %q, %v", after, before, err)
		}
	}
	var made bool
	if err := program.QueryRow(t.Context(), `SELECT count(*) > 0 FROM pg_namespace WHERE nspname = 'ackledger'`,
		pgx.QueryExecModeSimpleProtocol).Scan(&made); err != nil || made {
		t.Errorf("the schema is there: %v, %v", made, err)
	}
}

// What lies on another access method than heap has no pages for the sweep to go along.
func TestOtherStorageIsRefused(t *testing.T) {
	t.Parallel()
	db := services.Postgres(t)
	if err := execOn(t.Context(), db.URL, "CREATE ACCESS METHOD other TYPE TABLE HANDLER heap_tableam_handler"); err != nil {
		services.Missing(t, err) // a right that not all test users have
	}
	if err := execOn(t.Context(), db.URL, fmt.Sprintf("ALTER DATABASE %s SET default_table_access_method = other",
		pgx.Identifier{db.Database}.Sanitize())); err != nil {
		t.Fatal(err)
	}
	refusedAs(t, opens["Migrate"](t.Context(), db.URL), postgres.OtherStorage, "PostgreSQL")
	if err := opens["Migrate"](t.Context(), db.URL, postgres.OtherStorage); err != nil {
		t.Errorf("accepted: %v", err)
	}
}

// What is let through and may go wrong is said once.
func TestRemarks(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	url := pooledBy(t, "session", b.url, 3)
	logs, seen := observer.New(zap.WarnLevel)
	l := openBench(t, url, variant{cfg: &postgres.Config{Logger: zap.New(logs)}})
	for range 2 {
		if err := l.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if all := seen.All(); len(all) != 1 || !strings.Contains(all[0].Message, "default_query_exec_mode=exec") {
		t.Errorf("said: %v", all)
	}
}

// TestSuiteBehindPgBouncer runs the suite through a pooler in transaction mode, with fewer connections to the server than there are
// to the pooler.
func TestSuiteBehindPgBouncer(t *testing.T) {
	t.Parallel()
	if os.Getenv("ACKLEDGER_LONG") == "" {
		t.Skip("a long run: ACKLEDGER_LONG=1")
	}
	for name, v := range versions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := newBench(t, v)
			v.mode = pgx.QueryExecModeExec
			b := openBench(t, pooledBy(t, "transaction", direct.url, 4), v)
			open := func(*testing.T) ledgertest.Store { return b.store() }
			ledgertest.Run(t, open)
			ledgertest.RunInTx(t, open)
			ledgertest.RunRanged(t, open)
			ledgertest.Differential(t, open, 40)
		})
	}
}
