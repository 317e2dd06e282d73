package postgres

import (
	"bytes"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// stepRow is a step as it is read: sqlSteps.
type stepRow struct {
	name, result []byte
	failed       bool
	at           int64
	size         int
}

func (r *stepRow) dest() []any { return []any{&r.name, &r.failed, &r.at, &r.result, &r.size} }

func (r *stepRow) step() ledger.Step {
	return ledger.Step{Name: string(r.name), Failed: r.failed, At: time.UnixMicro(r.at), Result: bytes.Clone(r.result), Size: r.size}
}

// Steps implements [ledger.StepReader]. A schema of a version before 13 has no table for them: the error says to migrate.
func (o *owner) Steps(ctx context.Context, t ledger.Ticket) (list []ledger.Step, err error) {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	var r stepRow
	err = o.ledger.read(ctx, sqlSteps, []any{uuid(t.Sum()), true}, r.dest(), func() { list = append(list, r.step()) })
	if err != nil {
		return nil, err
	}
	return list, nil
}

// getSteps fills in what a record has of steps. A schema of a version before 13 has none.
func (l *Ledger) getSteps(ctx context.Context, tx pgx.Tx, rec *ledger.Record) error {
	var there bool
	if err := tx.QueryRow(ctx, l.sql(sqlHasSteps)).Scan(&there); err != nil || !there {
		return err
	}
	rows, err := tx.Query(ctx, l.sql(sqlSteps), uuid(rec.Key), false)
	if err != nil {
		return err
	}
	rec.Steps, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (ledger.Step, error) {
		var r stepRow
		err := row.Scan(r.dest()...)
		return r.step(), err
	})
	if len(rec.Steps) == 0 {
		rec.Steps = nil
	}
	return err
}
