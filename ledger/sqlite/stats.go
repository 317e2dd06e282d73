package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Stats implements [ledger.Inspector]. Rows are estimated from the first and the last number in a table; SQLite keeps no
// size of one table, so the entry "file" has the size of the main file, indexes included.
func (l *Ledger) Stats(ctx context.Context) (ledger.Stats, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	var s ledger.Stats
	var seen []byte
	var at sql.NullInt64
	err := l.read.QueryRowContext(ctx, "SELECT seen, seen_at FROM ackledger_maintenance").Scan(&seen, &at)
	if err == nil && at.Valid {
		var p ledger.Pass
		if p, err = ledger.DecodePass(seen); err == nil {
			s = p.Stats(time.Now())
		}
	}
	if err != nil {
		return ledger.Stats{}, statsError(err)
	}
	for _, table := range []string{"message", "archive"} {
		t := ledger.TableStats{Name: table}
		err := l.read.QueryRowContext(ctx, "SELECT coalesce((SELECT max(num) FROM ackledger_"+table+
			") - (SELECT min(num) FROM ackledger_"+table+") + 1, 0)").Scan(&t.Rows)
		if err != nil {
			return ledger.Stats{}, statsError(err)
		}
		s.Tables = append(s.Tables, t)
	}
	for _, table := range []string{"segment", "claim_range"} {
		t := ledger.TableStats{Name: table}
		if err := l.read.QueryRowContext(ctx, "SELECT count(*) FROM ackledger_"+table).Scan(&t.Rows); err != nil {
			return ledger.Stats{}, statsError(err)
		}
		s.Tables = append(s.Tables, t)
	}
	file := ledger.TableStats{Name: "file", Rows: -1}
	var pages, size int64
	if err := l.read.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages); err != nil {
		return ledger.Stats{}, statsError(err)
	}
	if err := l.read.QueryRowContext(ctx, "PRAGMA page_size").Scan(&size); err != nil {
		return ledger.Stats{}, statsError(err)
	}
	file.Bytes = pages * size
	s.Tables = append(s.Tables, file)
	o := &s.Owners
	err = l.owners.db.QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE fate = 1),
		count(*) FILTER (WHERE fate = 1 AND lease_end < ?), count(*) FILTER (WHERE fate = 2), count(*) FILTER (WHERE fate = 3)
		FROM ackledger_owner`, time.Now().UnixMicro()).Scan(&o.Live, &o.Overdue, &o.Left, &o.Dead)
	if err == nil {
		s.Deliveries, err = l.deliveries(ctx)
	}
	if err != nil {
		return ledger.Stats{}, statsError(err)
	}
	s.Answered = l.counts.Answered()
	return s, nil
}

func statsError(err error) error { return fmt.Errorf("ledger/sqlite: stats: %w", err) }
