package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// failOnce fails a message for good in a delivery of that name.
func failOnce(t *testing.T, b *bench, id, delivery string) ledger.Key {
	t.Helper()
	o, e := join(t, b, time.Minute), entry(id)
	e.Delivery = []byte(delivery)
	c := claimOne(t, o, e, ledger.Run)
	dead := &ledger.Archive{Key: e.Key, Delivery: e.Delivery, Body: []byte("b"), Keep: time.Hour}
	if err := settleOne(t, o, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Fail, Dead: dead}); err != nil {
		t.Fatal(err)
	}
	return e.Key
}

// replayedAt is the hint of each archived delivery of a message, by Get; the list must say the same.
func replayedAt(t *testing.T, b *bench, key ledger.Key) map[string]time.Time {
	t.Helper()
	rec, err := b.Get(t.Context(), key)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		t.Fatal(err)
	}
	at := map[string]time.Time{}
	for _, a := range rec.Archived {
		at[string(a.Delivery)] = a.Replayed
	}
	for d, err := range b.DeadLetters(t.Context(), ledger.Filter{IDs: [][]byte{key.ID}}) {
		if err != nil || !d.Replayed.Equal(at[string(d.Delivery)]) {
			t.Fatalf("the list says that %q was replayed at %s, Get %s: %v", d.Delivery, d.Replayed, at[string(d.Delivery)], err)
		}
	}
	return at
}

// TestReplayLeavesArchive: the hint of a replay is read from the audit, and nothing of the archive is written anew for it:
// neither bodies nor its five indexes.
func TestReplayLeavesArchive(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	key, other := failOnce(t, b, "one", `d"1`), failOnce(t, b, "other", `d"1`)
	versions := func() (v string) {
		b.each(t, "SELECT md5(string_agg(ctid::text || xmin::text || xmax::text, ' ' ORDER BY ctid))::uuid FROM ackledger.archive",
			func(sum [16]byte) { v = string(sum[:]) })
		return v
	}
	before := versions()
	audit := func(action ledger.Action, delivery string) {
		t.Helper()
		err := b.Audit(t.Context(), []ledger.AuditRecord{{By: ledger.By{Actor: "a", Reason: `,"delivery":"ZCIx"`},
			Action: action, Key: key, Delivery: []byte(delivery), Detail: `"delivery":"ZCIx"`}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{`d"`, `d"12`, "d", ""} {
		audit(ledger.ActionReplay, d)
	}
	audit(ledger.ActionRenew, `d"1`)
	if at := replayedAt(t, b, key); !at[`d"1`].IsZero() {
		t.Errorf("replayed at %s, was not", at[`d"1`])
	}
	audit(ledger.ActionReplay, `d"1`)
	if at := replayedAt(t, b, key); at[`d"1`].IsZero() {
		t.Error("replayed, and has no hint")
	}
	if at := replayedAt(t, b, other); !at[`d"1`].IsZero() {
		t.Error("the hint is another message's")
	}
	if versions() != before {
		t.Error("an archived delivery was written anew")
	}
	b.exec(t, "UPDATE ackledger.archive SET replayed_at = now() + interval '1 h' WHERE key = $1", key.Sum())
	if at := replayedAt(t, b, key); time.Until(at[`d"1`]) < 30*time.Minute {
		t.Errorf("the hint of a program before this one is lost: %s", at[`d"1`])
	}
}

// TestHintReopened: a message that succeeded and was reopened has its old deliveries renamed. Their hint stays, and a new
// failure of the old name has none.
func TestHintReopened(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	key := failOnce(t, b, "m", "d")
	by := ledger.By{Actor: "a"}
	if err := b.Audit(t.Context(), []ledger.AuditRecord{{By: by, Action: ledger.ActionReplay, Key: key, Delivery: []byte("d")}}); err != nil {
		t.Fatal(err)
	}
	b.exec(t, "UPDATE ackledger.message SET state = 2, failed_delivery = NULL WHERE key = $1", key.Sum())
	report, err := b.Reopen(t.Context(), ledger.ReopenRequest{Filter: ledger.Filter{Scope: key.Scope}, By: by})
	if err != nil || report.Reopened != 1 {
		t.Fatalf("reopened %+v, %v", report, err)
	}
	failOnce(t, b, "m", "d")
	at := replayedAt(t, b, key)
	if len(at) != 2 || !at["d"].IsZero() {
		t.Errorf("hints %v, want one, of the delivery before the message was reopened", at)
	}
	delete(at, "d")
	for name, when := range at {
		if when.IsZero() {
			t.Errorf("the hint of %q is lost", name)
		}
	}
}

// TestHintNeedsAudit: the audit is the operators' alone. Others list and get without the hint, also once they may no longer.
func TestHintNeedsAudit(t *testing.T) {
	t.Parallel()
	admin, worker := asRole(t, postgres.Worker, false)
	key := failOnce(t, admin, "m", "d")
	if err := admin.Audit(t.Context(), []ledger.AuditRecord{{By: ledger.By{Actor: "a"}, Action: ledger.ActionReplay, Key: key, Delivery: []byte("d")}}); err != nil {
		t.Fatal(err)
	}
	role := func() (name string) {
		if err := worker.pool.QueryRow(t.Context(), "SELECT quote_ident(current_user)").Scan(&name); err != nil {
			t.Fatal(err)
		}
		return name
	}()
	for _, may := range []bool{false, true, false} {
		change := "REVOKE SELECT ON ackledger.audit FROM " + role
		if may {
			change = "GRANT SELECT ON ackledger.audit TO " + role
		}
		admin.exec(t, change)
		if at := replayedAt(t, worker, key); len(at) != 1 || at["d"].IsZero() == may {
			t.Errorf("may read the audit: %t; hints %v", may, at)
		}
	}
}
