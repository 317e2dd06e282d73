package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/ledgertest"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// asRole makes a database whose ledger is used by a role of its own. It returns the superuser's bench, and the role's.
func asRole(t *testing.T, right postgres.Right, old bool) (admin, role *bench) {
	t.Helper()
	admin = newBench(t, variant{old: old})
	u, err := url.Parse(admin.url)
	if err != nil {
		t.Fatal(err)
	}
	name := "role_" + strings.TrimPrefix(u.Path, "/")
	admin.exec(t, "CREATE ROLE "+name+" LOGIN")
	t.Cleanup(func() {
		for _, sql := range []string{"DROP OWNED BY " + name, "DROP ROLE " + name} {
			if _, err := admin.pool.Exec(context.Background(), sql); err != nil {
				t.Errorf("%s: %v", sql, err)
			}
		}
	})
	grant(t, admin, name, right)
	grant(t, admin, name, right) // it may be repeated
	admin.exec(t, "GRANT SELECT, INSERT ON effects TO "+name)
	u.User = url.User(name)
	return admin, openBench(t, u.String(), variant{})
}

func grant(t *testing.T, admin *bench, role string, right postgres.Right) {
	t.Helper()
	conn, err := pgx.ParseConfig(admin.url)
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.Grant(t.Context(), conn, "", role, right); err != nil {
		t.Fatal(err)
	}
}

// TestRoleWorker: the whole contract, InTx and the sweep included, holds under a role that owns nothing and deletes
// no message, archived delivery or owner.
func TestRoleWorker(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]bool{"18": false, "14": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := func(t *testing.T) ledgertest.Store {
				admin, role := asRole(t, postgres.Worker, old)
				s := role.store()
				of := admin.store() // what tests do behind the ledger's back
				s.Declare, s.Drop, s.DropOwner, s.Rest, s.Lock, s.DSN = of.Declare, of.Drop, of.DropOwner, of.Rest, of.Lock, ""
				return s
			}
			if old {
				ledgertest.Pitfall28(t, open)
				return
			}
			shared := open(t)
			ledgertest.Run(t, func(*testing.T) ledgertest.Store { return shared })
			ledgertest.RunInTx(t, func(*testing.T) ledgertest.Store { return shared })
			ledgertest.RunOutbox(t, func(*testing.T) ledgertest.Store { return shared })
			ledgertest.RunMaintain(t, open)
			ledgertest.RunRanged(t, func(*testing.T) ledgertest.Store { return shared })
			ledgertest.RunRangedMaintain(t, open)
		})
	}
}

// TestRoleWorkerMayNotMore: what the worker's role is refused.
func TestRoleWorkerMayNotMore(t *testing.T) {
	t.Parallel()
	admin, role := asRole(t, postgres.Worker, false)
	o := join(t, admin, time.Minute)
	c := claimOne(t, o, entry("a"), ledger.Run)
	if err := settleOne(t, o, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"DELETE FROM ackledger.message", "DELETE FROM ackledger.archive", "DELETE FROM ackledger.owner",
		"DELETE FROM ackledger.range_log",
		"DELETE FROM ackledger.scope", "DELETE FROM ackledger.maintenance", "TRUNCATE ackledger.message",
		"UPDATE ackledger.archive SET expiry = now()", "UPDATE ackledger.meta SET schema_version = 9",
		"INSERT INTO ackledger.audit (action) VALUES ('x')", "SELECT * FROM ackledger.audit",
		"DROP TABLE ackledger.message", "ALTER TABLE ackledger.message ADD COLUMN x integer",
		"CREATE TABLE ackledger.x (y integer)", "DROP FUNCTION ackledger.sweep_owner(bigint, bigint[])",
	} {
		var refused *pgconn.PgError
		if _, err := role.pool.Exec(t.Context(), sql); !errors.As(err, &refused) || refused.Code != "42501" {
			t.Errorf("%s: %v, want insufficient privilege", sql, err)
		}
	}
	// The function that it may call removes nothing that has not expired, whatever it is told.
	role.exec(t, "UPDATE ackledger.maintenance SET holder = 7, began = 'infinity', archive_before = 'infinity'")
	role.exec(t, "SELECT ackledger.sweep_message(7, 1, 0, 1000, -1000000000000000)")
	role.exec(t, "SELECT ackledger.sweep_archive(7, 1, 0, 1000)")
	role.exec(t, "CREATE TEMP TABLE message (state smallint)") // a table of its own does not stand in
	role.exec(t, "SELECT ackledger.sweep_message(7, 1, 0, 1000, 0)")
	claimOne(t, o, entry("a"), ledger.Done)
	// Nobody else may call it.
	admin.exec(t, "DO $$ BEGIN IF EXISTS (SELECT FROM information_schema.routine_privileges WHERE routine_schema = 'ackledger'"+
		" AND grantee = 'PUBLIC') THEN RAISE 'PUBLIC may execute'; END IF; END $$")
}

// TestRoleOperator: the operator's role can do all that operators do, deletes nothing, and cannot rewrite its trace.
func TestRoleOperator(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]bool{"18": false, "14": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testRoleOperator(t, old)
		})
	}
}

func testRoleOperator(t *testing.T, old bool) {
	admin, role := asRole(t, postgres.Operator, old)
	s := role.store()
	of := admin.store()
	s.Declare, s.Drop, s.DropOwner, s.Rest, s.Lock, s.DSN = of.Declare, of.Drop, of.DropOwner, of.Rest, of.Lock, ""
	ledgertest.RunOperate(t, func(*testing.T) ledgertest.Store { return s })
	for r, err := range role.Audits(t.Context(), ledger.AuditFilter{Limit: 1}) {
		if err != nil || !strings.HasPrefix(r.Role, "role_") {
			t.Errorf("audit: %+v, %v; want the role that the database knows", r, err)
		}
	}
	for _, sql := range []string{
		"DELETE FROM ackledger.audit", "UPDATE ackledger.audit SET action = ''", "DELETE FROM ackledger.meta",
		"DELETE FROM ackledger.message", "DELETE FROM ackledger.archive",
	} {
		var refused *pgconn.PgError
		if _, err := role.pool.Exec(t.Context(), sql); !errors.As(err, &refused) || refused.Code != "42501" {
			t.Errorf("%s: %v, want insufficient privilege", sql, err)
		}
	}
}

// TestRoleWorkerMayNotOperate: what would leave no trace is refused, and changes nothing.
func TestRoleWorkerMayNotOperate(t *testing.T) {
	t.Parallel()
	_, role := asRole(t, postgres.Worker, false)
	o := join(t, role, time.Minute)
	c := claimOne(t, o, entry("done"), ledger.Run)
	if err := settleOne(t, o, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}); err != nil {
		t.Fatal(err)
	}
	failed := entry("failed")
	c = claimOne(t, o, failed, ledger.Run)
	dead := &ledger.Archive{Key: failed.Key, Delivery: failed.Delivery, Body: []byte("b"), Keep: time.Hour}
	if err := settleOne(t, o, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Fail, Dead: dead}); err != nil {
		t.Fatal(err)
	}
	by := ledger.By{Actor: "worker"}
	_, renew := role.Renew(t.Context(), ledger.Renewal{Key: failed.Key, Token: c.Token, By: by})
	reopened, reopen := role.Reopen(t.Context(), ledger.ReopenRequest{Filter: ledger.Filter{Scope: failed.Key.Scope}, By: by})
	purged, purge := role.Purge(t.Context(), ledger.PurgeRequest{By: by})
	audit := role.Audit(t.Context(), []ledger.AuditRecord{{By: by, Action: ledger.ActionReplay, Key: failed.Key}})
	var audits error
	for _, err := range role.Audits(t.Context(), ledger.AuditFilter{}) {
		audits = err
	}
	for what, err := range map[string]error{"renew": renew, "reopen": reopen, "purge": purge, "audit": audit, "audits": audits} {
		if !ledger.Unusable(err) || !strings.Contains(err.Error(), "lacks a privilege") {
			t.Errorf("%s: %v, want a missing privilege", what, err)
		}
	}
	if reopened.Reopened+purged.Purged != 0 {
		t.Errorf("reopened %d, purged %d", reopened.Reopened, purged.Purged)
	}
	claimOne(t, o, entry("done"), ledger.Done)
	rec, err := role.Get(t.Context(), failed.Key)
	if err != nil || rec.Token != c.Token || len(rec.Archived) != 1 || string(rec.Archived[0].Body) != "b" {
		t.Errorf("the failed message: %+v, %v", rec, err)
	}
}

func TestGrantRefuses(t *testing.T) {
	t.Parallel()
	db := services.Postgres(t)
	conn, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	for field, call := range map[string]func() error{
		"conn":          func() error { return postgres.Grant(t.Context(), nil, "", "r", postgres.Worker) },
		"Config.Schema": func() error { return postgres.Grant(t.Context(), conn, "pg_x", "r", postgres.Worker) },
		"role":          func() error { return postgres.Grant(t.Context(), conn, "", "", postgres.Worker) },
		"right":         func() error { return postgres.Grant(t.Context(), conn, "", "r", 0) },
	} {
		var bad *ledger.InvalidError
		if err := call(); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := postgres.Grant(t.Context(), conn, "", "nobody_here", postgres.Worker); !ledger.Unusable(err) {
		t.Errorf("no tables: %v", err)
	}
	away, err := pgx.ParseConfig("postgres://localhost:1/none")
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.Grant(t.Context(), away, "", "r", postgres.Worker); err == nil || ledger.Unusable(err) {
		t.Errorf("no server: %v", err)
	}
	migrate(t, db.URL, nil)
	if err := postgres.Grant(t.Context(), conn, "", fmt.Sprint("no ", db.Database), postgres.Worker); err == nil {
		t.Error("no such role: accepted")
	}
	var owner *ledger.InvalidError
	if err := postgres.Grant(t.Context(), conn, "", conn.User, postgres.Worker); !errors.As(err, &owner) || owner.Field != "role" {
		t.Errorf("the role that migrated: %v", err)
	}
	migrate(t, db.URL, nil) // it still may
}
