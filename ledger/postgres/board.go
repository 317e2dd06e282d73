package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/internal/acts"
	"github.com/ackledger/ackledger/internal/beats"
	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
)

var _ ledger.Board = (*Ledger)(nil)

const (
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
			w = ledger.WorkerStatus{Owner: ownerName(id), Fate: fates[fate], Report: beats.DecodeReport(report)}
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
	if err := checks.Pause(scope, by); err != nil {
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
			if err := checks.Pauses(hold); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, l.sql(sqlPause), []byte(scope), by.Actor, by.Reason); err != nil {
			return err
		}
		return l.noted(ctx, tx, acts.PauseRecord(scope, by, ledger.ActionPause))
	}))
}

// Resume implements [ledger.Board]. It needs the rights of [Operator].
func (l *Ledger) Resume(ctx context.Context, scope string, by ledger.By) (was bool, err error) {
	if err := checks.Pause(scope, by); err != nil {
		return false, err
	}
	err = l.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, l.sql(sqlResume), []byte(scope))
		if was = tag.RowsAffected() > 0; err != nil || !was {
			return err
		}
		return l.noted(ctx, tx, acts.PauseRecord(scope, by, ledger.ActionResume))
	})
	return was && err == nil, named("resume", err)
}

func (l *Ledger) noted(ctx context.Context, tx pgx.Tx, note ledger.AuditRecord) error {
	_, err := tx.Exec(ctx, l.sql(sqlAudit), auditArgs([]ledger.AuditRecord{note})...)
	return err
}
