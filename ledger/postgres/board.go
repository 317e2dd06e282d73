package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/ledger"
)

var (
	_ ledger.Board   = (*Ledger)(nil)
	_ ledger.Boarded = (*owner)(nil)
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

	sqlWorkers = `
SELECT id, fate, (extract(epoch FROM lease_end - clock_timestamp()) * 1000000)::bigint, report FROM {s}.owner
WHERE fate = 1 OR lease_end > clock_timestamp() - $1::bigint * interval '1 microsecond' ORDER BY fate, lease_end DESC LIMIT $2::bigint`

	// sqlPauseTurn keeps others from adding one: readers go on.
	sqlPauseTurn = `LOCK TABLE {s}.pause IN SHARE ROW EXCLUSIVE MODE`
	sqlPauseHas  = `SELECT count(*), count(*) FILTER (WHERE scope = $1::bytea) FROM {s}.pause`
	sqlPause     = `
INSERT INTO {s}.pause (scope, actor, reason) VALUES ($1::bytea, $2::text, $3::text)
ON CONFLICT (scope) DO UPDATE SET actor = excluded.actor, reason = excluded.reason`
	sqlResume = `DELETE FROM {s}.pause WHERE scope = $1::bytea`
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

// beatBoard is the beat where the schema has reports and pauses.
func (o *owner) beatBoard(ctx context.Context, conn *pgxpool.Conn) (now int64, err error) {
	rows, err := conn.Query(ctx, o.ledger.sql(sqlBeatBoard), o.id, o.lease.Microseconds(), o.Written())
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	met, durable := false, ""
	var hold []ledger.Pause
	for rows.Next() {
		p, err := scanPause(rows, &now, &durable)
		if err != nil {
			return 0, err
		}
		if met = true; p != nil {
			hold = append(hold, *p)
		}
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	if !met {
		return 0, pgx.ErrNoRows
	}
	o.Heard(hold)
	return now, nil
}

// beat is one on any schema. One that was migrated down while this owner lived takes no reports any more.
func (o *owner) beat(ctx context.Context, conn *pgxpool.Conn) (now int64, err error) {
	if o.boards.Load() {
		if now, err = o.beatBoard(ctx, conn); !noBoard(err) {
			return now, err
		}
		o.boards.Store(false)
	}
	var durable string
	err = conn.QueryRow(ctx, o.ledger.sql(sqlBeat), o.id, o.lease.Microseconds()).Scan(&now, &durable)
	return now, err
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

// Pauses implements [ledger.Board]. A schema of a version before 15 has none.
func (l *Ledger) Pauses(ctx context.Context) (hold []ledger.Pause, err error) {
	err = askOn(ctx, l.own, func(ctx context.Context, conn *pgxpool.Conn) error {
		hold, _, err = l.pausesOn(ctx, conn)
		return err
	})
	return hold, named("pauses", err)
}

// Workers implements [ledger.Board]. An owner that left or died counts from its last lease's end. Of a schema before version 15 its error
// says to migrate.
func (l *Ledger) Workers(ctx context.Context) (all []ledger.WorkerStatus, err error) {
	err = askOn(ctx, l.own, func(ctx context.Context, conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, l.sql(sqlWorkers), ledger.OwnerRest.Microseconds(), ledger.MaxWorkers)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (w ledger.WorkerStatus, err error) {
			var id, left int64
			var fate int16
			var report []byte
			if err := row.Scan(&id, &fate, &left, &report); err != nil {
				return w, err
			}
			w = ledger.WorkerStatus{Owner: ownerName(id), Fate: fates[fate], Report: ledger.DecodeReport(report)}
			if w.Fate == ledger.Live {
				w.Lease = time.Duration(left) * time.Microsecond
			}
			return w, nil
		})
		return err
	})
	return all, named("workers", err)
}

var fates = map[int16]ledger.Holder{1: ledger.Live, 2: ledger.Left, 3: ledger.Dead}

// Pause implements [ledger.Board]. It needs the rights of [Operator].
func (l *Ledger) Pause(ctx context.Context, scope string, by ledger.By) error {
	if err := ledger.CheckPause(scope, by); err != nil {
		return err
	}
	return named("pause", l.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, l.sql(sqlPauseTurn)); err != nil {
			return err
		}
		var hold, there int
		if err := tx.QueryRow(ctx, l.sql(sqlPauseHas), []byte(scope)).Scan(&hold, &there); err != nil {
			return err
		}
		if there == 0 {
			if err := ledger.CheckPauses(hold); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, l.sql(sqlPause), []byte(scope), by.Actor, by.Reason); err != nil {
			return err
		}
		return l.noted(ctx, tx, ledger.PauseRecord(scope, by, ledger.ActionPause))
	}))
}

// Resume implements [ledger.Board]. It needs the rights of [Operator].
func (l *Ledger) Resume(ctx context.Context, scope string, by ledger.By) (was bool, err error) {
	if err := ledger.CheckPause(scope, by); err != nil {
		return false, err
	}
	err = l.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, l.sql(sqlResume), []byte(scope))
		if was = tag.RowsAffected() > 0; err != nil || !was {
			return err
		}
		return l.noted(ctx, tx, ledger.PauseRecord(scope, by, ledger.ActionResume))
	})
	return was && err == nil, named("resume", err)
}

func (l *Ledger) noted(ctx context.Context, tx pgx.Tx, note ledger.AuditRecord) error {
	_, err := tx.Exec(ctx, l.sql(sqlAudit), auditArgs([]ledger.AuditRecord{note})...)
	return err
}
