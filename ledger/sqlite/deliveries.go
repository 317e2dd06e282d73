package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

var _ ledger.DeliveryCounter = (*Ledger)(nil)

// CountDeliveries implements [ledger.DeliveryCounter]. It is one short transaction on the owners file, which no InTx keeps. A
// ledger that is given a new owners file ([Config].NewOwners) counts from zero.
func (l *Ledger) CountDeliveries(ctx context.Context, more []ledger.Deliveries) error {
	if err := ledger.CheckDeliveries(more); err != nil {
		return err
	}
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	err := l.owners.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for _, d := range more {
			_, err := tx.ExecContext(ctx, `INSERT INTO ackledger_delivery AS d (scope, since, misses, hits, timeouts) VALUES (?, ?, ?, ?, ?)
				ON CONFLICT DO UPDATE SET misses = d.misses + excluded.misses, hits = d.hits + excluded.hits,
				timeouts = d.timeouts + excluded.timeouts`, []byte(d.Scope), time.Now().UnixMicro(), d.Misses, d.Hits, d.Timeouts)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("ledger/sqlite: count deliveries: %w", err)
	}
	return nil
}

// deliveries reads what was counted.
func (l *Ledger) deliveries(ctx context.Context) (all []ledger.Deliveries, err error) {
	err = query(ctx, l.owners.db, `SELECT scope, since, misses, hits, timeouts FROM ackledger_delivery
		ORDER BY misses + hits DESC, scope LIMIT ?`, []any{ledger.MaxStatScopes}, func(rows *sql.Rows) error {
		var d ledger.Deliveries
		var scope []byte
		var since int64
		err := rows.Scan(&scope, &since, &d.Misses, &d.Hits, &d.Timeouts)
		d.Scope, d.Since = string(scope), time.UnixMicro(since).UTC()
		all = append(all, d)
		return err
	})
	return all, err
}
