package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/ledger"
)

// callTimeout is what a call without a deadline gets.
const callTimeout = 10 * time.Second

func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, callTimeout)
}

// frozenLimit ends a transaction whose process says nothing between two of its round trips (it is frozen, or cut off): until
// then it holds what it has locked, and the others' claims there are Busy.
const frozenLimit = 3 * time.Second

// rollbackLimit bounds a rollback; a connection that does not answer by then is closed, which rolls back as well.
const rollbackLimit = 5 * time.Second

// maintainSQL puts the schema's name into a statement of the sweep or of Stats.
func (l *Ledger) maintainSQL(sql string) string {
	quoted := pgx.Identifier{l.cfg.Schema}.Sanitize()
	return strings.NewReplacer("{s}", quoted, "{text}", "'"+strings.ReplaceAll(quoted, "'", "''")+"'").Replace(sql)
}

// operateSQL puts the schema's name into a statement of operators.
func (l *Ledger) operateSQL(sql string) string {
	return strings.ReplaceAll(l.maintainSQL(sql), "{durable}", "set_config('synchronous_commit', 'on', true)")
}

// ask runs one short statement on the ledger's own connections.
func (l *Ledger) ask(ctx context.Context, fn func(context.Context, *pgxpool.Conn) error) error {
	return askOn(ctx, l.own, fn)
}

func askOn(ctx context.Context, pool *pgxpool.Pool, fn func(context.Context, *pgxpool.Conn) error) error {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return notSent(err)
	}
	defer conn.Release()
	return usable(fn(ctx, conn))
}

// list carries out one statement, with the plan settings, on the ledger's own connections, and calls scan for each row.
func (l *Ledger) list(ctx context.Context, sql string, args []any, scan func(pgx.Rows) error) error {
	return l.ask(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return tuned(ctx, conn, l.sql.tune, l.operateSQL(sql), args, scan)
	})
}

// tuned sends a statement behind its plan settings, in one round trip and one implicit transaction.
func tuned(ctx context.Context, conn interface {
	SendBatch(context.Context, *pgx.Batch) pgx.BatchResults
}, tune, sql string, args []any, scan func(pgx.Rows) error,
) error {
	batch := &pgx.Batch{}
	batch.Queue(tune)
	batch.Queue(sql, args...)
	results := conn.SendBatch(ctx, batch)
	_, err := results.Exec()
	if err == nil {
		err = scanAll(results, scan)
	}
	if closing := results.Close(); err == nil {
		err = closing
	}
	return err
}

func scanAll(results pgx.BatchResults, scan func(pgx.Rows) error) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// one runs a statement that answers one row, or none (pgx.ErrNoRows), in one round trip with what it is tuned by.
func (l *Ledger) one(ctx context.Context, query string, args []any, dest ...any) error {
	conn, err := l.own.Acquire(ctx)
	if err != nil {
		return notSent(err)
	}
	defer conn.Release()
	batch := &pgx.Batch{}
	batch.Queue(l.sql.tune)
	batch.Queue(query, args...)
	results := conn.SendBatch(ctx, batch)
	if _, err = results.Exec(); err == nil {
		err = results.QueryRow().Scan(dest...)
	}
	// The commit happens at the end of the batch, so what was read counts only when that went well.
	if closing := results.Close(); err == nil || errors.Is(err, pgx.ErrNoRows) && closing != nil {
		err = closing
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return sent(err)
}

// read runs a query that changes nothing, under the same plan settings as the statements that do.
func (l *Ledger) read(ctx context.Context, query string, args, dest []any, each func()) error {
	conn, err := l.own.Acquire(ctx)
	if err != nil {
		return notSent(err)
	}
	defer conn.Release()
	batch := &pgx.Batch{}
	batch.Queue(l.sql.tune)
	batch.Queue(query, args...)
	results := conn.SendBatch(ctx, batch)
	if _, err = results.Exec(); err == nil {
		var rows pgx.Rows
		if rows, err = results.Query(); err == nil {
			_, err = pgx.ForEachRow(rows, dest, func() error { each(); return nil })
		}
	}
	if closing := results.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("postgres: read: %w", usable(err))
	}
	return nil
}

// confirm returns when what was read before is as durable as what is written now.
func (l *Ledger) confirm(ctx context.Context) error {
	if _, err := l.own.Exec(ctx, l.sql.confirm); err != nil {
		return ledger.MarkUnknown(fmt.Errorf("postgres: confirm what is settled: %w", err))
	}
	return nil
}

// begun fixes the plans of a transaction of several round trips, and has the server end it if this process is frozen
// between two of them.
func (l *Ledger) begun(ctx context.Context, tx pgx.Tx, silent time.Duration) error {
	b := &pgx.Batch{}
	b.Queue(l.sql.tune)
	b.Queue(sqlFrozenLimit, milliseconds(silent))
	return tx.SendBatch(ctx, b).Close()
}
