package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/ackledger/ackledger/internal/fencedsql"
)

// session is one transaction, of pgx or of database/sql.
type session interface {
	// began is now() of the transaction, which begins at the latest with it.
	began(ctx context.Context) (int64, error)
	// scan runs a query of one row in the transaction; pgx.ErrNoRows or sql.ErrNoRows if there is none.
	scan(ctx context.Context, query string, args []any, dest ...any) error
	// tuned is scan under the settings of sqlTune, which stay until the transaction's end.
	tuned(ctx context.Context, query string, args []any, dest ...any) error
	// alive says whether the connection can still be used.
	alive(ctx context.Context) bool
	// ending says why the transaction must not be committed: the handler tried to end it, or its time is up.
	ending(bound time.Duration) error
	// commit sends COMMIT. With sent false the transaction is not committed for certain.
	commit(ctx context.Context) (sent bool, err error)
	rollback(ctx context.Context) error
	leave(ctx context.Context) // closes the connection, where that can be done
}

// pgxSession is a transaction of pgx.
type pgxSession struct{ tx *fencedTx }

func beginPgx(ctx context.Context, l *Ledger) (session, error) {
	conn, err := l.user.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	opts := pgx.TxOptions{IsoLevel: l.cfg.Isolation}
	return &pgxSession{&fencedTx{pooled: conn, conn: conn.Conn(), opts: opts, limits: l.txLimits(), ctx: ctx}}, nil
}

func (s *pgxSession) began(ctx context.Context) (int64, error) {
	_, err := s.tx.now(ctx)
	return s.tx.began, err
}

func (s *pgxSession) scan(ctx context.Context, query string, args []any, dest ...any) error {
	return s.tx.tx.QueryRow(ctx, query, args...).Scan(dest...)
}

func (s *pgxSession) tuned(ctx context.Context, query string, args []any, dest ...any) error {
	return tunedRow(ctx, s.tx.tx, query, args, dest...)
}

func (s *pgxSession) alive(context.Context) bool { return !s.tx.conn.IsClosed() }

func (s *pgxSession) ending(time.Duration) error {
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	return cmp.Or(s.tx.refused, s.tx.failed)
}

func (s *pgxSession) commit(ctx context.Context) (bool, error) {
	defer s.tx.pooled.Release()
	return true, s.tx.tx.Commit(ctx)
}

func (s *pgxSession) rollback(ctx context.Context) error {
	defer s.tx.pooled.Release()
	if s.tx.tx == nil {
		return nil
	}
	return s.tx.tx.Rollback(ctx)
}

func (s *pgxSession) leave(ctx context.Context) { _ = s.tx.conn.Close(ctx) }

// sqlSession is a transaction of database/sql.
type sqlSession struct {
	tx    *fencedsql.Tx
	start int64 // now() of the transaction
}

func beginSQL(ctx context.Context, l *Ledger) (session, error) {
	l.openDB.Do(func() {
		l.db = sql.OpenDB(fencedsql.Connector(stdlib.GetPoolConnector(l.user)))
		l.db.SetMaxIdleConns(0) // the pool keeps the connections
	})
	if l.db == nil {
		return nil, sql.ErrConnDone // the ledger is closed
	}
	level := sql.LevelReadCommitted
	if l.cfg.Isolation == pgx.RepeatableRead {
		level = sql.LevelRepeatableRead
	}
	tx, err := fencedsql.Begin(ctx, l.db, &sql.TxOptions{Isolation: level}, l.cfg.TxLimit)
	if err != nil {
		return nil, err
	}
	s := &sqlSession{tx: tx}
	var idle string
	var total *string // see fencedTx.send
	return s, s.scan(ctx, sqlTxBegin, l.txLimits(), &s.start, &idle, &total)
}

func (s *sqlSession) began(context.Context) (int64, error) { return s.start, nil }

func (s *sqlSession) scan(ctx context.Context, query string, args []any, dest ...any) error {
	return s.tx.SQL().QueryRowContext(ctx, query, args...).Scan(dest...)
}

// tuned takes two round trips: database/sql has no batches.
func (s *sqlSession) tuned(ctx context.Context, query string, args []any, dest ...any) error {
	if _, err := s.tx.SQL().ExecContext(ctx, sqlTune); err != nil {
		return err // as the query would
	}
	return s.scan(ctx, query, args, dest...)
}

func (s *sqlSession) alive(ctx context.Context) bool {
	var one int
	err := s.scan(ctx, "SELECT 1", nil, &one)
	return err == nil || errors.Is(err, sql.ErrTxDone) || rolledBack(err) // as in a transaction that has failed
}

func (s *sqlSession) ending(bound time.Duration) error { return s.tx.Ending(bound) }

func (s *sqlSession) commit(context.Context) (bool, error) { return s.tx.Commit() }

func (s *sqlSession) rollback(context.Context) error { return s.tx.Rollback() }

// leave leaves the connection to its pool: database/sql has no way to close that of a transaction.
func (s *sqlSession) leave(context.Context) {}

func isNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) || errors.Is(err, sql.ErrNoRows) }
