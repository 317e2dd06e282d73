package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/ledgertest"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// TestSteps runs the suite of steps on the oldest and the newest PostgreSQL, and in the ways in which pgx can send a statement.
func TestSteps(t *testing.T) {
	t.Parallel()
	variants := map[string]variant{"18": {}, "14": {old: true}}
	for _, mode := range modes() {
		variants[mode.String()] = variant{mode: mode}
	}
	for name, v := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := shared(t, v)
			t.Run("Operate", func(t *testing.T) { ledgertest.RunStepsOperate(t, open) })
			ledgertest.RunSteps(t, open)
		})
	}
}

// TestStepsOfARole: an operator's role records steps, and forgets them by reopening; it deletes none by itself.
func TestStepsOfARole(t *testing.T) {
	t.Parallel()
	admin, role := asRole(t, postgres.Operator, false)
	s := role.store()
	of := admin.store()
	s.Declare, s.Drop, s.DropOwner, s.Rest, s.Lock, s.DSN = of.Declare, of.Drop, of.DropOwner, of.Rest, of.Lock, ""
	t.Run("Operate", func(t *testing.T) { ledgertest.RunStepsOperate(t, func(*testing.T) ledgertest.Store { return s }) })
	ledgertest.RunSteps(t, func(*testing.T) ledgertest.Store { return s })
	if !refusedOn(t, role, "DELETE FROM ackledger.step") || !refusedOn(t, role, "UPDATE ackledger.step SET result = ''") {
		t.Error("a role may change steps that are recorded")
	}
}

func recordStep(c ledger.Claim, name string) ledger.Settlement {
	return ledger.Settlement{Ticket: c.Ticket, Kind: ledger.RecordStep, Step: &ledger.Step{Name: name, Result: []byte(name)}}
}

// TestStepsUpgrade: a worker of now on a schema of before steps says to migrate, and does all else. Once it is migrated it goes
// on, the rights of roles included; the sweep of a program of before, which is the schema's own, takes steps along.
func TestStepsUpgrade(t *testing.T) {
	t.Parallel()
	admin, role := asRole(t, postgres.Worker, false)
	conn, err := pgx.ParseConfig(admin.url)
	if err == nil {
		err = postgres.MigrateTo(t.Context(), conn, 12)
	}
	if err != nil {
		t.Fatal(err)
	}
	o := join(t, role, time.Minute)
	c := claimOne(t, o, entry("a"), ledger.Run)
	done := claimOne(t, o, entry("done"), ledger.Run)
	errs, err := o.Settle(t.Context(), []ledger.Settlement{recordStep(c, "charge"), {Ticket: done.Ticket, Kind: ledger.Succeed}})
	if err != nil || errs[1] != nil {
		t.Fatalf("what is settled beside a step: %v, %v", errs, err)
	}
	for what, err := range map[string]error{"record": errs[0], "read": read(t, o, c)} {
		if !ledger.Unusable(err) {
			t.Errorf("%s on schema 12: %v, want an error that says to migrate", what, err)
		}
	}
	if rec, err := role.Get(t.Context(), entry("a").Key); err != nil || rec.Steps != nil || rec.State != ledger.Pending {
		t.Errorf("get on schema 12: %+v, %v", rec, err)
	}
	if err := postgres.Migrate(t.Context(), conn, ""); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"charge", "ship"} {
		if err := settleOne(t, o, recordStep(c, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := read(t, o, c); err != nil {
		t.Error(err)
	}
	other := claimOne(t, o, entry("b"), ledger.Run)
	if err := settleOne(t, o, recordStep(other, "charge")); err != nil {
		t.Fatal(err)
	}
	if err := settleOne(t, o, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed}); err != nil {
		t.Fatal(err)
	}
	admin.exec(t, "UPDATE ackledger.message SET expiry = at WHERE state = 2")
	role.exec(t, "UPDATE ackledger.maintenance SET holder = 7")
	role.exec(t, "SELECT ackledger.sweep_message(7, 1000000, 0, 1000, 0)")
	var names []byte
	if err := admin.pool.QueryRow(t.Context(), "SELECT string_agg(name, ',') FROM ackledger.step").Scan(&names); err != nil || string(names) != "charge" {
		t.Errorf("after the sweep there are steps %q, %v; want the other message's", names, err)
	}
}

func read(t *testing.T, o ledger.Owner, c ledger.Claim) error {
	t.Helper()
	_, err := ledger.ReadSteps(t.Context(), o, c.Ticket)
	return err
}
