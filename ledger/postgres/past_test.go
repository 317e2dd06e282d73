package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// succeedWith settles one message with a result, and makes its window be over.
func succeedWith(t *testing.T, admin *bench, o ledger.Owner, id, result string) {
	t.Helper()
	c := claimOne(t, o, entry(id), ledger.Run)
	if err := settleOne(t, o, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed, Result: []byte(result)}); err != nil {
		t.Fatal(err)
	}
	admin.exec(t, "UPDATE ackledger.message SET expiry = at WHERE state = 2")
}

// TestPastUpgrade: a worker of now on a schema of before says to migrate when it is to keep the past, and does all else. Once it is
// migrated it goes on, the rights of its role included; the sweep of a program of before, which is the schema's own, keeps the past, too.
func TestPastUpgrade(t *testing.T) {
	t.Parallel()
	admin, role := asRole(t, postgres.Worker, false)
	conn, err := pgx.ParseConfig(admin.url)
	if err == nil {
		err = postgres.MigrateTo(t.Context(), conn, 13)
	}
	if err != nil {
		t.Fatal(err)
	}
	o := join(t, role, time.Minute)
	succeedWith(t, admin, o, "a", "of before")
	if err := role.KeepPast(t.Context(), entry("a").Key.Scope, time.Hour); !ledger.Unusable(err) {
		t.Errorf("keep on schema 13: %v, want an error that says to migrate", err)
	}
	if r, err := role.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil || r.Messages != 1 {
		t.Errorf("sweep on schema 13: %+v, %v", r, err)
	}
	if rec, err := role.Get(t.Context(), entry("a").Key); !errors.Is(err, ledger.ErrNotFound) || rec.Past != nil {
		t.Errorf("get on schema 13: %+v, %v", rec, err)
	}
	if found, err := role.Find(t.Context(), "", []byte("a")); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("find on schema 13: %+v, %v", found, err)
	}
	if err := postgres.Migrate(t.Context(), conn, ""); err != nil {
		t.Fatal(err)
	}
	if err := role.KeepPast(t.Context(), entry("a").Key.Scope, time.Hour); err != nil {
		t.Fatal(err)
	}
	succeedWith(t, admin, o, "a", "of now")
	role.exec(t, "UPDATE ackledger.maintenance SET holder = 7")
	role.exec(t, "SELECT ackledger.sweep_message(7, 1000000, 0, 1000, 0)")
	rec, err := role.Get(t.Context(), entry("a").Key)
	if !errors.Is(err, ledger.ErrNotFound) || len(rec.Past) != 1 || string(rec.Past[0].Result) != "of now" {
		t.Errorf("after the sweep: %+v, %v", rec, err)
	}
}

// TestPastOfARole: a worker's role writes and deletes nothing of the past by itself, and the sweep that it may call takes nothing before
// its time, nor without the turn.
func TestPastOfARole(t *testing.T) {
	t.Parallel()
	admin, role := asRole(t, postgres.Worker, false)
	if err := role.KeepPast(t.Context(), entry("a").Key.Scope, time.Hour); err != nil {
		t.Fatal(err)
	}
	succeedWith(t, admin, join(t, role, time.Minute), "a", "result")
	role.exec(t, "UPDATE ackledger.maintenance SET holder = 7")
	role.exec(t, "SELECT ackledger.sweep_message(7, 1000000, 0, 1000, 0)")
	for _, sql := range []string{
		"DELETE FROM ackledger.past", "UPDATE ackledger.past SET until = now()", "INSERT INTO ackledger.past SELECT * FROM ackledger.past",
		"UPDATE ackledger.scope SET name = 'x'", "SELECT ackledger.keep_past()",
	} {
		if !refusedOn(t, role, sql) {
			t.Errorf("a worker's role may: %s", sql)
		}
	}
	left := func() int { return admin.number(t, "SELECT count(*) FROM ackledger.past") }
	role.exec(t, "SELECT ackledger.sweep_past(7, 1000000, 1000)")
	if n := left(); n != 1 {
		t.Fatalf("%d are kept before their time is over, want 1", n)
	}
	admin.exec(t, "UPDATE ackledger.past SET until = now() - interval '1 second'")
	role.exec(t, "SELECT ackledger.sweep_past(8, 1000000, 1000)")
	if n := left(); n != 1 {
		t.Fatalf("%d are kept after a sweep without the turn, want 1", n)
	}
	role.exec(t, "SELECT ackledger.sweep_past(7, 1000000, 1000)")
	if n := left(); n != 0 {
		t.Fatalf("%d are kept beyond their time", n)
	}
}
