package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// getRanged reads what ranges know of a message that has no row; pgx.ErrNoRows: nothing.
func (l *Ledger) getRanged(ctx context.Context, tx pgx.Tx, rec *ledger.Record) error {
	log, offset := ranges.SplitSum(rec.Key)
	if offset < 0 || offset == 1<<63-1 { // a key of an id
		return pgx.ErrNoRows
	}
	sql := l.sql
	var scope, prefix []byte
	if err := tx.QueryRow(ctx, sql(sqlLogInfo), logKey(log)).Scan(&scope, &prefix); err != nil {
		return err
	}
	s := newSight([]ranges.Query{{Info: ranges.Info{Log: log}}}, true)
	asked := []any{[]int64{logKey(log)}, []int64{offset}, []int64{offset + 1}}
	b := &pgx.Batch{}
	b.Queue(sql(sqlRangeState), int64(0), int64(0)).QueryRow(s.state)
	b.Queue(sql(sqlRangeRead), asked...).Query(s.ranges(0))
	b.Queue(sql(sqlSegments), asked...).Query(s.segments)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	f := &s.facts[0]
	f.Now = s.now
	if !ranges.Find(f, offset, rec) {
		return pgx.ErrNoRows
	}
	rec.Scope, rec.ID = string(scope), (&ranges.Info{Prefix: string(prefix)}).ID(offset)
	if rec.State == ledger.Pending {
		rec.Owner = ownerName(s.owners[0][rec.Token])
	}
	return nil
}
