package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// A worker's role made a fresh segment an hour old by sixty-two small steps, each within what two settlements at once may
// differ by, and deleted it then: what had succeeded ran again. No step goes back, by an UPDATE or by a segment in its place.
func TestPitfall133_SmallStepsBack(t *testing.T) {
	t.Parallel()
	for name, step := range map[string][]string{
		"one row": {"UPDATE ackledger.segment SET until = until - interval '59 seconds'"},
		"another in its place": {
			"CREATE TEMP TABLE was ON COMMIT DROP AS SELECT * FROM ackledger.segment", "DELETE FROM ackledger.segment",
			"INSERT INTO ackledger.segment SELECT log, first, last, messages, since, until - interval '59 seconds', expiry, kind FROM was",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			admin, role := asRole(t, postgres.Worker, false)
			o := join(t, role, time.Minute)
			all := records("s", 0, 0, 10)
			succeedAll(t, o, claimsOf(t, o, all, ledger.Run))
			for range 62 {
				refusedOn(t, role, step...)
			}
			if !refusedOn(t, role, "DELETE FROM ackledger.segment") {
				t.Error("the segment is gone")
			}
			if old := admin.number(t, "SELECT count(*) FROM ackledger.segment WHERE until < now() - interval '2 minutes'"); old > 0 {
				t.Error("the segment was made older")
			}
			claimsOf(t, o, all, ledger.Done)
		})
	}
}

// outOfBounds runs a statement and says whether a check refused its value.
func outOfBounds(t *testing.T, b *bench, sql string) bool {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), sql)
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "23514"
}

// A worker's role kept everybody from sweeping with a lease that ended in a hundred years, and its own life with another.
func TestPitfall134_LeaseOfAHundredYears(t *testing.T) {
	t.Parallel()
	admin, role := asRole(t, postgres.Worker, false)
	join(t, role, time.Minute)
	for _, sql := range []string{
		"UPDATE ackledger.maintenance SET lease_end = now() + interval '100 years'", "UPDATE ackledger.maintenance SET lease_end = 'infinity'",
		"UPDATE ackledger.maintenance SET due = now() + interval '100 years'",
		"UPDATE ackledger.owner SET lease_end = now() + interval '100 years'",
		"INSERT INTO ackledger.owner (id, lease_end, joined, host) VALUES (1, 'infinity', now(), '')",
		"SELECT ackledger.sweep_audit(1, 9000000000000000, 0, 1)",
	} {
		admin.exec(t, "UPDATE ackledger.maintenance SET holder = 1, lease_end = '-infinity'")
		if !outOfBounds(t, role, sql) {
			t.Errorf("%s: let through", sql)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := admin.Sweep(ctx, ledger.MaintainConfig{}); err != nil {
		t.Error(err)
	}
}

// An operator's role wrote audit rows of another time, number and name. What an audit row is worth, the database says; so it does
// of rows of a schema that was granted before.
func TestPitfall135_ForgedAudit(t *testing.T) {
	t.Parallel()
	admin, role := asRole(t, postgres.Operator, false)
	name := role.pool.Config().ConnConfig.User
	check := func(when string) {
		t.Helper()
		for _, set := range []string{"at) VALUES ('x', 'purge', '2001-01-01'", "role) VALUES ('x', 'purge', 'somebody'", "id) OVERRIDING SYSTEM VALUE VALUES ('x', 'purge', 1"} {
			if !refusedOn(t, role, "INSERT INTO ackledger.audit (actor, action, "+set+")") {
				t.Errorf("%s: %s: let through", when, set)
			}
		}
		if refusedOn(t, role, "INSERT INTO ackledger.audit (actor, action) VALUES ('x', 'purge')") {
			t.Errorf("%s: an honest row is refused", when)
		}
	}
	check("granted anew")
	conn, err := pgx.ParseConfig(admin.url)
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.MigrateTo(t.Context(), conn, 10); err != nil {
		t.Fatal(err)
	}
	admin.exec(t, "GRANT INSERT ON ackledger.audit TO "+name)
	admin.exec(t, "GRANT SELECT ON ackledger.message TO PUBLIC")
	if err := postgres.Migrate(t.Context(), conn, ""); err != nil {
		t.Fatal(err)
	}
	check("granted before the migration")
	if n := admin.number(t, "SELECT count(*) FROM information_schema.role_table_grants WHERE table_schema = 'ackledger' AND grantee = 'PUBLIC'"); n > 0 {
		t.Errorf("everybody has %d rights", n)
	}
	if n := admin.number(t, "SELECT count(*) FROM ackledger.audit WHERE role <> '"+name+"'"); n > 0 {
		t.Errorf("%d audit rows of another", n)
	}
}

// Rights for everybody are refused, however everybody is written.
func TestGrantRefusesEverybody(t *testing.T) {
	t.Parallel()
	conn, err := pgx.ParseConfig("postgres://localhost:1/none")
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"public", "PUBLIC", `"public"`, "none", "pg_read_all_data", "", "a\x00"} {
		bad, invalid := errors.AsType[*ledger.InvalidError](postgres.Grant(t.Context(), conn, "", role, postgres.Worker))
		if !invalid || bad.Field != "role" || bad.Bound == "" {
			t.Errorf("%q is not refused by name", role)
		}
	}
}

// One pass removes all that is old, however much that is and however large the transactions may be.
func TestALongAuditGoesInOnePass(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	b.exec(t, "INSERT INTO ackledger.audit (at, actor, action) SELECT now() - interval '500 days', 'x', 'purge' FROM generate_series(1, 25000)")
	report, err := b.Sweep(t.Context(), ledger.MaintainConfig{Batch: 20_000})
	if left := b.number(t, "SELECT count(*) FROM ackledger.audit"); err != nil || report.Audits != 25_000 || left != 0 {
		t.Errorf("%v: %d removed, %d left", err, report.Audits, left)
	}
}

// The audit goes after its retention, by whoever sweeps, and never before 90 days, whatever a worker's role asks for.
func TestAuditRetention(t *testing.T) {
	t.Parallel()
	admin, role := asRole(t, postgres.Worker, false)
	for _, days := range []int{500, 450, 401, 399, 200, 89, 0} {
		admin.exec(t, fmt.Sprintf("INSERT INTO ackledger.audit (at, actor, action) VALUES (now() - interval '%d days', 'x', 'purge')", days))
	}
	left := func() int { return admin.number(t, "SELECT count(*) FROM ackledger.audit") }
	report, err := role.Sweep(t.Context(), ledger.MaintainConfig{Batch: 100})
	if err != nil || report.Audits != 3 || left() != 4 {
		t.Errorf("%v: %d removed, %d left", err, report.Audits, left())
	}
	role.exec(t, "UPDATE ackledger.maintenance SET holder = 7")
	role.exec(t, "SELECT ackledger.sweep_audit(7, 0, 0, 1000)")
	if left() != 2 {
		t.Errorf("%d left of those of 89 days and today", left())
	}
	if _, err := role.Sweep(t.Context(), ledger.MaintainConfig{KeepAudit: 24 * time.Hour}); err == nil || !strings.Contains(err.Error(), "KeepAudit") {
		t.Errorf("a day's retention: %v", err)
	}
}
