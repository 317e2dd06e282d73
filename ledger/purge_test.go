package ledger_test

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// A purge names who asks for it, unless it is a dry run, and its filter is checked in any case.
func TestPurgeRequestIsRefusedByName(t *testing.T) {
	me := ledger.By{Actor: "me", Reason: "why"}
	for field, r := range map[string]ledger.PurgeRequest{
		"PurgeRequest.Filter.Body": {By: me, Filter: ledger.Filter{Body: true}},
		"Filter.Limit":             {By: me, Filter: ledger.Filter{Limit: -1}},
		"By.Actor":                 {By: ledger.By{Reason: "why"}},
	} {
		wantInvalid(t, r.Check(), field)
	}
	for name, r := range map[string]ledger.PurgeRequest{"by somebody": {By: me}, "a dry run": {DryRun: true}} {
		if err := r.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A filter of the audit is refused if no record can be in it.
func TestAuditFilterIsRefusedByName(t *testing.T) {
	now := time.Unix(1700000000, 0)
	for field, f := range map[string]ledger.AuditFilter{
		"AuditFilter.To": {From: now, To: now}, "AuditFilter.Limit": {Limit: -1}, "AuditFilter.After": {After: -1},
	} {
		wantInvalid(t, f.Check(), field)
	}
	if err := (&ledger.AuditFilter{From: now, To: now.Add(1), Limit: 1}).Check(); err != nil {
		t.Error(err)
	}
}

// late identifies an entry when it is asked, once.
type late struct{ asked int }

func (l *late) Identify() (ledger.Fingerprint, []byte) {
	l.asked++
	return ledger.NewFingerprint([]byte("a"), []byte("b")), []byte("d")
}

// What an entry leaves out is filled in once, and what is there is left alone.
func TestEntryComplete(t *testing.T) {
	l := &late{}
	e := ledger.Entry{Late: l}
	e.Complete()
	e.Complete()
	if l.asked != 1 || e.Fingerprint.IsZero() || string(e.Delivery) != "d" || e.Late != nil {
		t.Errorf("asked %d times: %+v", l.asked, e)
	}
}

// Names of mended bodies differ for each time that one is mended.
func TestRenewedDeliveryIsNamedAnew(t *testing.T) {
	if got := string(ledger.RenewedDelivery(7)); got != "renewed:7" {
		t.Error(got)
	}
}
