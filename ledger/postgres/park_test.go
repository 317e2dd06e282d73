package postgres_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/ledgertest"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// TestParked runs the suite of parked messages on the oldest and the newest PostgreSQL, and in the ways in which pgx can send a
// statement.
func TestParked(t *testing.T) {
	t.Parallel()
	variants := map[string]variant{"18": {}, "14": {old: true}}
	for _, mode := range modes() {
		variants[mode.String()] = variant{mode: mode}
	}
	for name, v := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledgertest.RunParked(t, shared(t, v))
		})
	}
}

// TestParkedOperate runs the suite of what operators do to parked messages.
func TestParkedOperate(t *testing.T) {
	t.Parallel()
	ledgertest.RunParkedOperate(t, shared(t, variant{}))
}

// TestParkedOfARole: a worker's role parks messages and runs them; it deletes none that is parked by itself.
func TestParkedOfARole(t *testing.T) {
	t.Parallel()
	admin, role := asRole(t, postgres.Worker, false)
	s := role.store()
	of := admin.store()
	s.Declare, s.Drop, s.DropOwner, s.Rest, s.Lock, s.DSN = of.Declare, of.Drop, of.DropOwner, of.Rest, of.Lock, ""
	ledgertest.RunParked(t, func(*testing.T) ledgertest.Store { return s })
	if !refusedOn(t, role, "DELETE FROM ackledger.parked") {
		t.Error("a role may delete what is parked")
	}
}

// TestParkedUpgrade: a worker of now on a schema of before parks nothing, and says why; it does all else. Whoever joins once it is migrated parks,
// the rights of roles included. What a worker of before takes over from there on ends what is parked of it.
func TestParkedUpgrade(t *testing.T) {
	t.Parallel()
	for _, before := range []int64{17, 18} {
		t.Run(strconv.FormatInt(before, 10), func(t *testing.T) {
			t.Parallel()
			parkedUpgrade(t, before)
		})
	}
}

func parkedUpgrade(t *testing.T, version int64) {
	admin, role := asRole(t, postgres.Worker, false)
	conn, err := pgx.ParseConfig(admin.url)
	if err == nil {
		err = postgres.MigrateTo(t.Context(), conn, version)
	}
	if err != nil {
		t.Fatal(err)
	}
	before := join(t, role, time.Minute)
	if role.Parks() {
		t.Errorf("a schema of version %d parks", version)
	}
	m := entry("a")
	parks := func(c ledger.Claim) ledger.Settlement {
		return ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Park, After: time.Millisecond, Dead: &ledger.Archive{
			Key: m.Key, Fingerprint: m.Fingerprint, Delivery: m.Delivery, Body: []byte("body"), Keep: time.Hour}}
	}
	c := claimOne(t, before, m, ledger.Run)
	if _, invalid := errors.AsType[*ledger.InvalidError](settleOne(t, before, parks(c))); !invalid {
		t.Errorf("a schema of version %d takes what is parked", version)
	}
	if s, err := role.ParkedLane(t.Context(), m.Key.Scope, []byte("lane")); err != nil || s.Messages != 0 {
		t.Errorf("of a lane that the schema cannot have: %+v, %v", s, err)
	}
	if err := settleOne(t, before, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Release}); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), conn, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := role.ParkedLane(t.Context(), m.Key.Scope, []byte("lane")); err != nil || !role.Parks() {
		t.Errorf("who asks for a lane learns that there are some: %t, %v", role.Parks(), err)
	}
	c = claimOne(t, before, m, ledger.Run)
	after := join(t, role, time.Minute)
	if !role.Parks() {
		t.Fatal("a schema of version 19 parks nothing")
	}
	if err := settleOne(t, before, parks(c)); err != nil {
		t.Fatal(err)
	}
	claimOne(t, after, m, ledger.InCare)
	admin.exec(t, "UPDATE ackledger.message SET token = token + 1, due = NULL, state = 2, owner = NULL WHERE state = 1") // as a program of before would
	if s, err := role.ParkedIn(t.Context(), m.Key.Scope); err != nil || s.Messages != 0 {
		t.Errorf("once the message has ended: %+v, %v", s, err)
	}
}

func TestPitfall222_BroughtAgainWhileParked(t *testing.T) {
	t.Parallel()
	ledgertest.Pitfall222(t, shared(t, variant{}))
}
func TestPitfall223_ParkedByARelease(t *testing.T) {
	t.Parallel()
	ledgertest.Pitfall223(t, shared(t, variant{}))
}
func TestPitfall224_ParkedAndFailed(t *testing.T) {
	t.Parallel()
	ledgertest.Pitfall224(t, shared(t, variant{}))
}
func TestPitfall227_Dropped(t *testing.T) {
	t.Parallel()
	ledgertest.Pitfall227(t, shared(t, variant{}))
}
func TestPitfall280_DroppedInPart(t *testing.T) {
	t.Parallel()
	ledgertest.Pitfall280(t, shared(t, variant{}))
}
func TestPitfall225_ParkedAndCommitted(t *testing.T) {
	t.Parallel()
	ledgertest.Pitfall225(t, shared(t, variant{}))
}
