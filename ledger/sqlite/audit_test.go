package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// The audit goes after its retention, in transactions of a bounded size.
func TestAuditRetention(t *testing.T) {
	l, a := openAt(t, filepath.Join(t.TempDir(), "ledger.db"), nil)
	const many = 250 // with a batch of 100
	add := func(days, n int) {
		t.Helper()
		at := time.Now().AddDate(0, 0, -days).UnixMicro()
		for range n {
			if _, err := a.main.ExecContext(t.Context(), "INSERT INTO ackledger_audit (at, actor, action) VALUES (?, 'x', 'purge')", at); err != nil {
				t.Fatal(err)
			}
		}
	}
	add(401, many)
	add(399, 2)
	report, err := l.Sweep(t.Context(), ledger.MaintainConfig{Batch: 100})
	var left int
	if err := a.main.QueryRowContext(t.Context(), "SELECT count(*) FROM ackledger_audit").Scan(&left); err != nil {
		t.Fatal(err)
	}
	if err != nil || report.Audits != many || left != 2 {
		t.Errorf("%v, %d removed, %d left", err, report.Audits, left)
	}
}
