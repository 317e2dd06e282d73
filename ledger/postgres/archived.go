package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/ledger"
)

var _ ledger.ArchiveMeter = (*Ledger)(nil)

// weighPage is how many archived deliveries one statement of ArchivedBytes looks at, and those that failed at the moment of
// the last.
const weighPage = 1000

// sqlWeigh adds up a page of a scope's archive, and says when the last of it failed; 0: there is nothing more. The length of
// what is stored out of line is known without reading it.
const sqlWeigh = `
SELECT coalesce(sum($5::bigint + coalesce(octet_length(a.body), 0) + coalesce(octet_length(a.headers), 0)
		+ coalesce(octet_length(a.errors), 0) + octet_length(a.grp)), 0)::bigint,
	coalesce((extract(epoch FROM max(a.at)) * 1000000)::bigint, 0)
FROM (` + sqlDeadScope + `) a`

// ArchivedBytes implements [ledger.ArchiveMeter], on the connection that Stats has, made for the time of a call.
func (l *Ledger) ArchivedBytes(ctx context.Context, scope string, enough int64) (n int64, err error) {
	err = askOn(ctx, l.stats, func(ctx context.Context, conn *pgxpool.Conn) error {
		ask := func(sql string, args []any, dest ...any) error {
			ctx, cancel := context.WithTimeout(ctx, ledger.CallTimeout) // a server that is gone is to be noticed, however long the whole takes
			defer cancel()
			scan := func(rows pgx.Rows) error { return rows.Scan(dest...) }
			return tuned(ctx, conn, l.sql(sql), args, scan)
		}
		var begin listBegin
		err := ask(sqlBegin, []any{[]byte(scope)}, &begin.at, &begin.scope, &begin.pages)
		for after, more := int64(0), begin.scope >= 0; err == nil && more && n < enough; {
			var weight, last int64
			args := []any{after, begin.at, int64(weighPage), begin.scope, int64(ledger.ArchiveRowBytes)}
			err = ask(sqlWeigh, args, &weight, &last)
			n, after, more = n+weight, last, last > 0
		}
		return err
	})
	return n, named("archived bytes", err)
}
