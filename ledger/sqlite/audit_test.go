package sqlite_test

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// The audit goes after its retention, in transactions of a bounded size.
func TestAuditRetention(t *testing.T) {
	t.Parallel()
	l, a := openAt(t, sqlite.Fresh(t), nil)
	const many = 250 // with a batch of 100
	add := func(days, n int) {
		t.Helper()
		at := time.Now().AddDate(0, 0, -days).UnixMicro()
		_, err := a.main.ExecContext(t.Context(), `WITH RECURSIVE i (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < ?2)
			INSERT INTO ackledger_audit (at, actor, action) SELECT ?1, 'x', 'purge' FROM i`, at, n)
		if err != nil {
			t.Fatal(err)
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
