package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// TestMigrateSaysWhoMigrates: a migration that waited for one that hung said "failed to acquire lock" after five minutes, and
// waited without any limit where the other made the schema.
func TestMigrateSaysWhoMigrates(t *testing.T) {
	t.Parallel()
	makes, migrates := postgres.MigrationTurns()
	for name, id := range map[string]int64{"makes the schema": makes, "migrates it": migrates} {
		for version, server := range map[string]func(testing.TB) *services.PG{"18": services.Postgres, "14": services.Postgres14} {
			t.Run(name+" "+version, func(t *testing.T) {
				t.Parallel()
				testMigrateWaits(t, server(t).URL, id)
			})
		}
	}
}

func testMigrateWaits(t *testing.T, url string, id int64) {
	conn, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	other, err := pgx.Connect(t.Context(), services.WithParameter(t, url, "application_name", "the_other"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(context.WithoutCancel(t.Context())) }()
	watch, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watch.Close(context.WithoutCancel(t.Context())) }()
	if _, err := other.Exec(t.Context(), "SELECT pg_advisory_lock($1)", id); err != nil {
		t.Fatal(err)
	}
	says := func(err error) {
		t.Helper()
		for _, words := range []string{"another migration", "'the_other'", "idle since 2",
			fmt.Sprintf("pg_terminate_backend(%d)", other.PgConn().PID())} {
			if err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("%v: does not say %q", err, words)
			}
		}
	}
	const patience = 300 * time.Millisecond
	began := time.Now()
	says(postgres.MigrateWaiting(t.Context(), conn, patience))
	if took := time.Since(began); took < patience || took > 20*time.Second {
		t.Errorf("it gave up after %s, not %s", took, patience)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	migrated := make(chan error, 1)
	go func() { migrated <- postgres.Migrate(ctx, conn, "") }()
	looked := map[time.Time]bool{} // one look may count twice: its statement is prepared first
	poll(t, "it has looked again who migrates", func() bool {
		var at *time.Time
		if err := watch.QueryRow(t.Context(), `SELECT max(state_change) FROM pg_stat_activity WHERE state <> 'active'
			AND datname = current_database() AND query LIKE '%terminate_backend%' AND pid <> pg_backend_pid()`).Scan(&at); err != nil {
			t.Fatal(err)
		}
		if at != nil {
			looked[*at] = true
		}
		return len(looked) > 2
	})
	began = time.Now()
	cancel()
	if err = <-migrated; !errors.Is(err, context.Canceled) {
		t.Errorf("its context ended: %v", err)
	}
	says(err)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it noticed the end of its context after %s", took)
	}
	go func() { migrated <- postgres.Migrate(t.Context(), conn, "") }()
	select {
	case err := <-migrated:
		t.Errorf("it migrated beside another: %v", err)
	case <-time.After(patience):
	}
	if err := other.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Errorf("once it is its turn: %v", err)
	}
}

// TestTurnGivenBack: a turn to migrate that the session does not have any more (a pooler gave it another one) was no turn, and
// the migration says so.
func TestTurnGivenBack(t *testing.T) {
	t.Parallel()
	_, migrates := postgres.MigrationTurns()
	db, err := sql.Open("pgx", services.Postgres(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "SELECT pg_advisory_lock($1)", migrates); err != nil {
		t.Fatal(err)
	}
	if err := postgres.UnlockTurn(t.Context(), conn); err != nil {
		t.Error(err)
	}
	const lacks = "did not have the lock"
	if err := postgres.UnlockTurn(t.Context(), conn); err == nil || !strings.Contains(err.Error(), lacks) {
		t.Errorf("twice: %v", err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := postgres.UnlockTurn(t.Context(), conn); err == nil || strings.Contains(err.Error(), lacks) {
		t.Errorf("without a connection: %v", err)
	}
}

// TestMigrateCutOff: a connection that breaks while the schema is looked for is an outage, and not a schema that is missing.
func TestMigrateCutOff(t *testing.T) {
	t.Parallel()
	cut, url := newCutter(t, services.Postgres(t).URL)
	conn, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cut.cutBefore("pg_namespace")
	if err := postgres.Migrate(t.Context(), conn, ""); err == nil || ledger.Unusable(err) || cut.count() != 1 {
		t.Errorf("%d cuts: %v", cut.count(), err)
	}
}

// TestMigrateMayNotCreate: a role that may not create schemas is told so.
func TestMigrateMayNotCreate(t *testing.T) {
	t.Parallel()
	_, role := asRole(t, postgres.Worker, false)
	if err := postgres.Migrate(t.Context(), role.pool.Config().ConnConfig, "another"); !ledger.Unusable(err) || !strings.Contains(err.Error(), "privilege") {
		t.Errorf("%v, want a missing privilege", err)
	}
}
