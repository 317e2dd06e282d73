package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// TestMigrateWaitsForNobody: a migration that has to wait for a vacuum, or for an index that is built, held the owners
// meanwhile, and with them every claim and heartbeat.
func TestMigrateWaitsForNobody(t *testing.T) {
	t.Parallel()
	db := services.Postgres(t)
	conn, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.MigrateTo(t.Context(), conn, 1); err != nil {
		t.Fatal(err)
	}
	old := openBench(t, db.URL, variant{})
	o := joinOld(t, old)
	vacuum, err := old.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = vacuum.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := vacuum.Exec(t.Context(), "LOCK ackledger.message IN SHARE UPDATE EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	go func() { migrated <- postgres.Migrate(t.Context(), conn, "") }()
	const waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'ackledger.message'::regclass)"
	for there, deadline := false, time.Now().Add(time.Minute); !there; {
		if err := old.pool.QueryRow(t.Context(), waits).Scan(&there); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("the migration does not wait for the table of messages")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // they would wait for ever
	defer cancel()
	if err := o.beat(ctx); err != nil {
		t.Errorf("a heartbeat while the migration waits: %v", err)
	}
	if err := o.claim(ctx, "a"); err != nil {
		t.Errorf("a claim while the migration waits: %v", err)
	}
	if err := vacuum.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Error(err)
	}
}

// A schema that the role may not use is left out of its search_path: the tables seemed to be missing, and Migrate said to run
// Migrate.
func TestMigrateNeedsUsage(t *testing.T) {
	t.Parallel()
	admin, role := asRole(t, postgres.Worker, false)
	conn := role.pool.Config().ConnConfig
	admin.exec(t, "REVOKE USAGE ON SCHEMA ackledger FROM "+conn.User)
	err := postgres.Migrate(t.Context(), conn, postgres.DefaultSchema)
	if err == nil || !strings.Contains(err.Error(), "no USAGE") {
		t.Errorf("a schema that this role may not use: %v", err)
	}
}

// TestMigrateRefusesASharedSchema: until PostgreSQL 14 every role may create functions in the schema public, and one that
// takes the place of a built-in one runs in the sweep with the rights of the ledger's owner.
func TestMigrateRefusesASharedSchema(t *testing.T) {
	t.Parallel()
	db := services.Postgres14(t)
	conn, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	err = postgres.Migrate(t.Context(), conn, "public")
	if err == nil || !strings.Contains(err.Error(), `REVOKE CREATE ON SCHEMA "public" FROM PUBLIC`) {
		t.Fatalf("a schema in which every role may create functions: %v", err)
	}
	b := openBench(t, db.URL, variant{cfg: &postgres.Config{Schema: "public"}})
	b.exec(t, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	if err := postgres.Migrate(t.Context(), conn, "public"); err != nil {
		t.Fatal(err)
	}
	join(t, b, time.Minute)
}

// TestNewerSchema: a program that the schema does not serve any more said that it was up to date, and took from roles the
// rights that only a newer version knows of.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	conn, err := pgx.ParseConfig(b.url)
	if err != nil {
		t.Fatal(err)
	}
	b.exec(t, "UPDATE ackledger.meta SET schema_version = 1000")
	if err := postgres.Migrate(t.Context(), conn, ""); err != nil {
		t.Errorf("a newer schema that serves this version: %v", err)
	}
	err = postgres.Grant(t.Context(), conn, "", "nobody_at_all", postgres.Worker)
	if err == nil || !strings.Contains(err.Error(), "version 1000") || !strings.Contains(err.Error(), "newer") {
		t.Errorf("grant on a newer schema: %v", err)
	}
	b.exec(t, "UPDATE ackledger.meta SET oldest_worker = 1000")
	if err := postgres.Migrate(t.Context(), conn, ""); !ledger.Unusable(err) || !strings.Contains(err.Error(), "deploy a newer one") {
		t.Errorf("a newer schema that does not serve this version: %v", err)
	}
}
