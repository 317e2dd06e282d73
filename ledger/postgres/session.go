package postgres

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/ackledger/ackledger/internal/fencedsql"
)

// session is one transaction, of pgx or of database/sql.
type session interface {
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
	tx, err := l.user.BeginTx(ctx, pgx.TxOptions{IsoLevel: l.cfg.Isolation})
	if err != nil {
		return nil, err
	}
	return &pgxSession{&fencedTx{Tx: tx}}, nil
}

func (s *pgxSession) scan(ctx context.Context, query string, args []any, dest ...any) error {
	return s.tx.Tx.QueryRow(ctx, query, args...).Scan(dest...)
}

func (s *pgxSession) tuned(ctx context.Context, query string, args []any, dest ...any) error {
	return tunedRow(ctx, s.tx, query, args, dest...)
}

func (s *pgxSession) alive(context.Context) bool { return !s.tx.Tx.Conn().IsClosed() }

func (s *pgxSession) ending(time.Duration) error {
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	return s.tx.refused
}

func (s *pgxSession) commit(ctx context.Context) (bool, error) { return true, s.tx.Tx.Commit(ctx) }

func (s *pgxSession) rollback(ctx context.Context) error { return s.tx.Tx.Rollback(ctx) }

func (s *pgxSession) leave(ctx context.Context) { _ = s.tx.Tx.Conn().Close(ctx) }

// fencedTx is the transaction that the handler gets: it may do everything but end it.
type fencedTx struct {
	pgx.Tx

	mu      sync.Mutex
	refused error
}

// Commit is refused, and dooms the transaction.
func (t *fencedTx) Commit(context.Context) error { return t.refuse() }

// Rollback is refused, and dooms the transaction.
func (t *fencedTx) Rollback(context.Context) error { return t.refuse() }

func (t *fencedTx) refuse() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused = fencedsql.ErrRefused
	return t.refused
}

// sqlSession is a transaction of database/sql.
type sqlSession struct{ tx *fencedsql.Tx }

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
	return &sqlSession{tx}, nil
}

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
