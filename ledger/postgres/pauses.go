package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/ledger"
)

const (
	// sqlBeatBoard is sqlBeat that takes a report along, and brings the pauses, one in each row: of none, one row without.
	sqlBeatBoard = `
WITH beat AS (
	UPDATE {s}.owner SET lease_end = clock_timestamp() + $2::bigint * interval '1 microsecond', report = $3::bytea
	WHERE id = $1::bigint AND fate = 1
	RETURNING (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS at, {durable} AS durable
)
SELECT b.at, b.durable, p.scope, p.actor, p.reason, (extract(epoch FROM p.since) * 1000000)::bigint
FROM beat b LEFT JOIN {s}.pause p ON true ORDER BY p.scope`

	sqlPauses = `SELECT scope, actor, reason, (extract(epoch FROM since) * 1000000)::bigint FROM {s}.pause ORDER BY scope`
)

// noBoard says that the schema is older than reports and pauses.
func noBoard(err error) bool { return code(err) == codeNoTable || code(err) == codeNoColumn }

// scanPause reads a pause; nil: the row has none.
func scanPause(row pgx.CollectableRow, before ...any) (p *ledger.Pause, err error) {
	var scope []byte
	var actor, reason *string
	var since *int64
	err = row.Scan(append(before, &scope, &actor, &reason, &since)...)
	if err != nil || since == nil {
		return nil, err
	}
	return &ledger.Pause{Scope: string(scope), By: ledger.By{Actor: *actor, Reason: *reason}, Since: time.UnixMicro(*since).UTC()}, nil
}

// pausesOn reads the pauses; boards says that the schema has them.
func (l *Ledger) pausesOn(ctx context.Context, conn *pgxpool.Conn) (hold []ledger.Pause, boards bool, err error) {
	rows, err := conn.Query(ctx, l.sql(sqlPauses))
	if err == nil {
		hold, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (ledger.Pause, error) {
			p, err := scanPause(row)
			if err != nil || p == nil {
				return ledger.Pause{}, err
			}
			return *p, nil
		})
	}
	if noBoard(err) {
		return nil, false, nil
	}
	return hold, err == nil, err
}
