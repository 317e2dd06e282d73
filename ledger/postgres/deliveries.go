package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

var _ ledger.DeliveryCounter = (*Ledger)(nil)

const (
	// sqlCount takes the rows in one order, so that no two calls wait for each other.
	sqlCount = `
INSERT INTO {s}.delivery AS d (scope, misses, hits, timeouts)
SELECT n.scope, n.misses, n.hits, n.timeouts
FROM unnest($1::integer[], $2::bigint[], $3::bigint[], $4::bigint[]) n (scope, misses, hits, timeouts) ORDER BY n.scope
ON CONFLICT (scope) DO UPDATE
SET misses = d.misses + excluded.misses, hits = d.hits + excluded.hits, timeouts = d.timeouts + excluded.timeouts`

	sqlDeliveries = `
SELECT s.name, (extract(epoch FROM d.since) * 1000000)::bigint, d.misses, d.hits, d.timeouts
FROM {s}.delivery d JOIN {s}.scope s ON s.id = d.scope ORDER BY d.misses::numeric + d.hits DESC, s.name LIMIT $1`
)

// CountDeliveries implements [ledger.DeliveryCounter]. A schema of a version before 12 has no table for it: its error says to
// migrate, and nothing else depends on it.
func (l *Ledger) CountDeliveries(ctx context.Context, more []ledger.Deliveries) error {
	if err := checks.Deliveries(more); err != nil {
		return err
	}
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	numbers := make(map[string]int32, len(more))
	for _, d := range more {
		numbers[d.Scope] = 0
	}
	if err := l.numbers(ctx, numbers); err != nil {
		return err
	}
	var scopes []int32
	var misses, hits, timeouts []int64
	for _, d := range more {
		scopes, misses = append(scopes, numbers[d.Scope]), append(misses, d.Misses)
		hits, timeouts = append(hits, d.Hits), append(timeouts, d.Timeouts)
	}
	return named("count deliveries", l.exec(ctx, sqlCount, scopes, misses, hits, timeouts))
}

// deliveries reads what was counted.
func (l *Ledger) deliveries(ctx context.Context, conn *pgxpool.Conn) (all []ledger.Deliveries, err error) {
	rows, err := conn.Query(ctx, l.sql(sqlDeliveries), ledger.MaxStatScopes)
	if err == nil {
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (d ledger.Deliveries, err error) {
			var name []byte
			var since int64
			err = row.Scan(&name, &since, &d.Misses, &d.Hits, &d.Timeouts)
			d.Scope, d.Since = string(name), time.UnixMicro(since).UTC()
			return d, err
		})
	}
	if code(err) == codeNoTable {
		return nil, nil
	}
	return all, err
}
