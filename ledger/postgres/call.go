package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// frozenLimit ends a transaction whose process says nothing between two of its round trips (it is frozen, or cut off): until
// then it holds what it has locked, and the others' claims there are Busy.
const frozenLimit = 3 * time.Second

// rollbackLimit bounds a rollback; a connection that does not answer by then is closed, which rolls back as well.
const rollbackLimit = 5 * time.Second

// ask runs one short statement on the ledger's own connections.
func (l *Ledger) ask(ctx context.Context, fn func(context.Context, *pgxpool.Conn) error) error {
	return askOn(ctx, l.own, fn)
}

func askOn(ctx context.Context, pool *pgxpool.Pool, fn func(context.Context, *pgxpool.Conn) error) error {
	return onConn(ctx, pool, func(ctx context.Context, conn *pgxpool.Conn) error { return usable(fn(ctx, conn)) })
}

// onConn calls fn with one of the pool's connections. It leaves fn's error as it is.
func onConn(ctx context.Context, pool *pgxpool.Pool, fn func(context.Context, *pgxpool.Conn) error) error {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return notSent(err)
	}
	defer conn.Release()
	return fn(ctx, conn)
}

// list carries out one statement, with the plan settings, on the ledger's own connections, and calls scan for each row.
func (l *Ledger) list(ctx context.Context, sql string, args []any, scan func(pgx.Rows) error) error {
	return l.ask(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return tuned(ctx, conn, l.sql(sql), args, scan)
	})
}

// sender is a connection or a transaction.
type sender interface {
	SendBatch(context.Context, *pgx.Batch) pgx.BatchResults
}

// tuned sends a statement behind its plan settings, in one round trip and one implicit transaction. That commits at the end,
// so what scan was called with counts only if there is no error.
func tuned(ctx context.Context, conn sender, sql string, args []any, scan func(pgx.Rows) error) error {
	batch := &pgx.Batch{}
	batch.Queue(sqlTune)
	batch.Queue(sql, args...).Query(each(scan))
	return conn.SendBatch(ctx, batch).Close()
}

// each calls scan for each row.
func each(scan func(pgx.Rows) error) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			if err := scan(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}

// tunedRow is tuned for a statement that answers one row, or none (pgx.ErrNoRows).
func tunedRow(ctx context.Context, conn sender, sql string, args []any, dest ...any) error {
	none := true
	err := tuned(ctx, conn, sql, args, func(rows pgx.Rows) error {
		none = false
		return rows.Scan(dest...)
	})
	if err == nil && none {
		err = pgx.ErrNoRows
	}
	return err
}

// one runs a statement that answers one row, or none (pgx.ErrNoRows).
func (l *Ledger) one(ctx context.Context, sql string, args []any, dest ...any) error {
	conn, err := l.own.Acquire(ctx)
	if err != nil {
		return notSent(err)
	}
	defer conn.Release()
	if err = tunedRow(ctx, conn, l.sql(sql), args, dest...); errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return sent(err)
}

// exec runs a statement that answers no row.
func (l *Ledger) exec(ctx context.Context, sql string, args ...any) error {
	if err := l.one(ctx, sql, args); !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return nil
}

// read runs a query that changes nothing.
func (l *Ledger) read(ctx context.Context, sql string, args, dest []any, each func()) error {
	return named("read", l.list(ctx, sql, args, into(dest, each)))
}

// into reads each row into the same variables, and calls do.
func into(dest []any, do func()) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		err := rows.Scan(dest...)
		if err == nil {
			do()
		}
		return err // as rows.Err does
	}
}

// confirm returns when what was read before is as durable as what is written now.
func (l *Ledger) confirm(ctx context.Context) error {
	_, err := l.own.Exec(ctx, l.sql(sqlConfirm))
	return ledger.MarkUnknown(named("confirm what is settled", err))
}

// begun fixes the plans of a transaction of several round trips, and has the server end it if this process is frozen
// between two of them.
func (l *Ledger) begun(ctx context.Context, tx pgx.Tx, silent time.Duration) error {
	b := &pgx.Batch{}
	b.Queue(sqlTune)
	b.Queue(sqlFrozenLimit, milliseconds(silent))
	return tx.SendBatch(ctx, b).Close()
}
