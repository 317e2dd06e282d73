package sqlite

import (
	"context"
	"database/sql"
	"math"

	"github.com/ackledger/ackledger/ledger"
)

var _ ledger.ArchiveMeter = (*Ledger)(nil)

// weighPage is how many archived deliveries one statement of ArchivedBytes looks at.
const weighPage = 1000

// sqlWeigh adds up a page of a scope's archive, and says where it ends. The length of a body is known without reading it
// where it is asked for in the table's own row.
const sqlWeigh = `SELECT sum(weight), max(at), max(num) FILTER (WHERE at = last) FROM (
	SELECT weight, at, num, max(at) OVER () AS last FROM (
		SELECT at, num, ? + coalesce(length(body), 0) + coalesce(length(headers), 0) + coalesce(length(errors), 0)
			+ length(grp) AS weight
		FROM ackledger_archive INDEXED BY ackledger_archive_scope
		WHERE purged_at IS NULL AND scope = (SELECT id FROM ackledger_scope WHERE name = ?) AND (at, num) > (?, ?)
		ORDER BY at, num LIMIT ?))`

// ArchivedBytes implements [ledger.ArchiveMeter].
func (l *Ledger) ArchivedBytes(ctx context.Context, scope string, enough int64) (n int64, err error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	at, num := sql.NullInt64{Int64: math.MinInt64, Valid: true}, sql.NullInt64{}
	for at.Valid && n < enough {
		var weight sql.NullInt64
		args := []any{ledger.ArchiveRowBytes, []byte(scope), at.Int64, num.Int64, weighPage}
		err := query(ctx, l.read, sqlWeigh, args, func(rows *sql.Rows) error { return rows.Scan(&weight, &at, &num) })
		if err != nil {
			return 0, operateError("archived bytes", err)
		}
		n += weight.Int64
	}
	return n, nil
}
