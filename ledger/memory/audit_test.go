package memory_test

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// The audit goes after its retention, the oldest first, and numbers are not used again.
func TestAuditRetention(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := memory.New(memory.WithClock(func() time.Time { return now }))
	note := func() {
		t.Helper()
		k := ledger.Key{Scope: "s", ID: []byte("id")}
		if err := l.Audit(t.Context(), []ledger.AuditRecord{{By: ledger.By{Actor: "x"}, Action: ledger.ActionReplay, Key: k}}); err != nil {
			t.Fatal(err)
		}
	}
	ids := func() (out []int64) {
		for a, err := range l.Audits(t.Context(), ledger.AuditFilter{}) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, a.ID)
		}
		return out
	}
	note()
	now = now.Add(100 * 24 * time.Hour)
	note()
	now = now.Add(301 * 24 * time.Hour)
	report, err := l.Sweep(t.Context(), ledger.MaintainConfig{})
	if left := ids(); err != nil || report.Audits != 1 || len(left) != 1 || left[0] != 2 {
		t.Errorf("%v, %d removed, left %v", err, report.Audits, left)
	}
	note()
	if report, err = l.Sweep(t.Context(), ledger.MaintainConfig{KeepAudit: 91 * 24 * time.Hour}); err != nil || report.Audits != 1 {
		t.Errorf("%v, %d removed", err, report.Audits)
	}
	if left := ids(); len(left) != 1 || left[0] != 3 {
		t.Errorf("left %v", left)
	}
	if _, err := l.Sweep(t.Context(), ledger.MaintainConfig{KeepAudit: time.Hour}); err == nil {
		t.Error("an hour's retention is not refused")
	}
}
