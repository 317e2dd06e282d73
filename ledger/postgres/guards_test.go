package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// refusedOn runs statements in one transaction and says whether it was refused for want of a privilege, at the latest at
// its end.
func refusedOn(t *testing.T, b *bench, sql ...string) bool {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		for _, s := range sql {
			if _, err := tx.Exec(t.Context(), s); err != nil {
				return err
			}
		}
		return nil
	})
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "42501" {
		return true
	}
	if err != nil {
		t.Errorf("%q: %v, want it done or refused", sql, err)
	}
	return false
}

// TestRoleGuards: a worker's role, or who got hold of it, made a message run again that had succeeded, by an UPDATE. What
// is finished, in a row or in a range, stays finished whatever a worker's role sends.
func TestRoleGuards(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]bool{"18": false, "14": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testRoleGuards(t, old)
		})
	}
}

func testRoleGuards(t *testing.T, old bool) {
	admin, role := asRole(t, postgres.Worker, old)
	o := join(t, role, time.Minute)
	all := append(records("s", 0, 0, 10), entry("a"))
	succeedAll(t, o, claimsOf(t, o, all, ledger.Run))
	const (
		message = "UPDATE ackledger.message SET "
		segment = "UPDATE ackledger.segment SET "
		again   = `INSERT INTO ackledger.message SELECT * FROM ackledger.message ON CONFLICT (key) DO UPDATE SET state = 1`
		shadow  = `CREATE TEMP TABLE segment ON COMMIT DROP AS SELECT * FROM ackledger.segment`
	)
	for _, sql := range [][]string{
		{message + "state = 1"}, {message + "state = 3"}, {message + "token = token + 1"}, {message + "expiry = '-infinity'"},
		{message + "result = 'x'"}, {message + "key = gen_random_uuid()"}, {again}, {"TRUNCATE ackledger.message"},
		{"DELETE FROM ackledger.message"}, {"DELETE FROM ackledger.segment"}, {shadow, "DELETE FROM ackledger.segment"},
		{segment + "last = last - 1"}, {segment + "first = first + 1"}, {segment + "kind = 2"}, {segment + "log = log + 1"},
		{segment + "expiry = '-infinity'"}, {segment + "until = '-infinity'"}, {segment + "last = last - 1", segment + "until = now()"},
		{"SET ackledger.reopen = on", "DELETE FROM ackledger.segment"}, {"TRUNCATE ackledger.segment"},
		{"UPDATE ackledger.range_log SET top = 0"}, {"UPDATE ackledger.range_log SET version = version - 1"},
		{"UPDATE ackledger.range_log SET low = 5"}, {"UPDATE ackledger.range_log SET start = 5"},
		{"INSERT INTO ackledger.range_log SELECT log + 1, version, token, top, scope, epoch, name, prefix, 5 FROM ackledger.range_log"},
		{"ALTER TABLE ackledger.message DISABLE TRIGGER ALL"}, {"ALTER TABLE ackledger.segment DISABLE TRIGGER USER"},
		{"SET session_replication_role = replica"}, {"DROP TRIGGER guard_succeeded ON ackledger.message"},
		{"CREATE OR REPLACE FUNCTION ackledger.guard_message() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"},
		{"CREATE FUNCTION ackledger.has_table_privilege(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'"},
		{"SELECT ackledger.guard_message()"}, {"SELECT ackledger.range_needs(gen_random_uuid(), 1::smallint)"},
	} {
		if !refusedOn(t, role, sql...) {
			t.Errorf("%q: not refused", sql)
		}
	}
	claimsOf(t, o, all, ledger.Done)
	testGuardsGiveWay(t, admin, role)
	claimsOf(t, o, all[10:], ledger.Done)
}

// testGuardsGiveWay: what workers, the sweep and operators have to do is let through. There is one segment, of offsets 0 to 9.
func testGuardsGiveWay(t *testing.T, admin, role *bench) {
	t.Helper()
	const (
		put  = `INSERT INTO ackledger.segment SELECT log, $, last, messages, since, until, expiry, kind FROM ackledger.segment LIMIT 1`
		drop = "DELETE FROM ackledger.segment"
		says = "SET LOCAL ackledger.reopen = on"
	)
	at := func(first string) string { return strings.Replace(put, "$", first, 1) }
	is := func(what string, refused, want bool) {
		t.Helper()
		if refused != want {
			t.Errorf("%s: refused is %t, want %t", what, refused, want)
		}
	}
	is("a segment that takes another's place", refusedOn(t, role, at("-1"), drop+" WHERE first = 0"), false)
	is("one that leaves a part of it", refusedOn(t, role, at("1"), drop+" WHERE first = -1"), true)
	is("the owner of the schema, by mistake", refusedOn(t, admin, drop), true)
	is("a message, by the owner", refusedOn(t, admin, "UPDATE ackledger.message SET due = NULL"), false)
	is("a part, by an operator who says so", refusedOn(t, admin, says, "UPDATE ackledger.segment SET first = 5"), false)
	admin.exec(t, "BEGIN; SET LOCAL ackledger.reopen = on; UPDATE ackledger.segment SET until = until - interval '2 hours'; COMMIT")
	is("what has not changed for an hour", refusedOn(t, role, drop), false)
	grant(t, admin, role.pool.Config().ConnConfig.User, postgres.Operator)
	is("a message, by an operator", refusedOn(t, role, "UPDATE ackledger.message SET due = NULL"), false)
}
