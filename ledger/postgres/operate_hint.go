package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/ackledger/ackledger/ledger"
)

// hint fills in when an operator last said that deliveries were sent again (ArchiveRecord.Replayed), from the audit: to
// write that on each archived delivery would rewrite its body, and its entry in each of the archive's indexes. Who may not
// read the audit is not told. Programs before this one wrote it on the row; the later of both counts.
func (l *Ledger) hint(ctx context.Context, records []*ledger.ArchiveRecord) error {
	if len(records) == 0 {
		return nil
	}
	if !l.mayAudit.Load() {
		may := false
		err := l.list(ctx, sqlMayAudit, nil, func(rows pgx.Rows) error { return rows.Scan(&may) })
		if err != nil || !may {
			return err
		}
		l.mayAudit.Store(true)
	}
	sums, names, since := make([]pgtype.UUID, len(records)), make([][]byte, len(records)), make([]int64, len(records))
	for i, r := range records {
		sums[i], names[i], since[i] = uuid(r.Key.Sum()), auditedAs(r.Delivery), r.At.UnixMicro()
	}
	var place, at int64
	err := l.list(ctx, sqlReplayed, []any{sums, names, since}, into([]any{&place, &at}, func() {
		if r, last := records[place-1], time.UnixMicro(at); last.After(r.Replayed) {
			r.Replayed = last
		}
	}))
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "42501" {
		l.mayAudit.Store(false) // the right was taken away
		return nil
	}
	return err
}

// auditedAs is what the stored audit of a delivery has in it, and no other: storage.EncodeAudit writes JSON, in whose texts
// a quote has a backslash before it. A message that was reopened has its deliveries renamed, and their audit not.
func auditedAs(delivery []byte) []byte {
	b, _ := json.Marshal(original(delivery)) // bytes have no way to fail
	return append([]byte(`"delivery":`), b...)
}
