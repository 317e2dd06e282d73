package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// TestUnfileOfOldSchemas: where nothing can make room for a delivery that fails again after its archive's time, the failure is not
// written, and its error says what to do; once the schema is migrated, a role of before writes it without a grant anew.
func TestUnfileOfOldSchemas(t *testing.T) {
	t.Parallel()
	admin, role := asRole(t, postgres.Worker, false)
	conn, err := pgx.ParseConfig(admin.url)
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.MigrateTo(t.Context(), conn, 15); err != nil {
		t.Fatal(err)
	}
	o := join(t, role, time.Minute)
	e := ledger.Entry{Key: ledger.Key{Scope: "s", ID: []byte("a")}, Delivery: []byte("copy 1"), Window: time.Millisecond}
	failure := func(keep time.Duration) (ledger.Settlement, error) {
		t.Helper()
		e.Delivery = append(e.Delivery, '+') // another copy, so that what has failed runs
		c := claimsOf(t, o, []ledger.Entry{e}, ledger.Run)[0]
		s := ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Fail,
			Dead: &ledger.Archive{Key: e.Key, Delivery: []byte("copy"), Kind: ledger.KindTerminal, Body: []byte("body"), Keep: keep}}
		errs, err := o.Settle(t.Context(), []ledger.Settlement{s})
		if err != nil {
			t.Fatal(err)
		}
		return s, errs[0]
	}
	if _, err := failure(time.Millisecond); err != nil {
		t.Fatal(err)
	}
	poll(t, "its time is over", func() bool {
		return admin.number(t, "SELECT count(*) FROM ackledger.archive WHERE expiry < clock_timestamp()") == 1
	})
	s, err := failure(time.Hour)
	if err == nil || ledger.IsLost(err) || ledger.Unknown(err) || !strings.Contains(err.Error(), "run postgres.Migrate") {
		t.Fatalf("filed over what is past its time: %v", err)
	}
	if r, err := role.Get(t.Context(), e.Key); err != nil || r.State != ledger.Pending {
		t.Errorf("not settled: %v, %v", r.State, err)
	}
	if err := postgres.Migrate(t.Context(), conn, ""); err != nil {
		t.Fatal(err)
	}
	if errs, err := o.Settle(t.Context(), []ledger.Settlement{s}); err != nil || errs[0] != nil {
		t.Errorf("by a role of before: %v, %v", errs, err)
	}
	if r, err := role.Get(t.Context(), e.Key); err != nil || r.State != ledger.Failed || len(r.Archived) != 1 || r.Archived[0].Keep < time.Hour {
		t.Errorf("after it: %+v, %v", r, err)
	}
}
