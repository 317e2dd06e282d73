package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/ackledger/ackledger/internal/fencedsql"
)

// session is one transaction, of pgx or of database/sql.
type session interface {
	// begin begins the transaction, if it has not begun.
	begin(ctx context.Context) error
	// mark is the transaction's; nothing, if it has not begun.
	mark() mark
	// publish writes what was published. It is called before fence, where that is.
	publish(ctx context.Context, s *statement) error
	// fence runs a fence under the settings of sqlTune, which stay until the transaction's end. here: it is the transaction that
	// began; false, too, if that was not answered.
	fence(ctx context.Context, f *fence) (here bool, err error)
	// settle is fence, and commits, in the same round trip where that can be. With sent false the transaction is not committed for
	// certain.
	settle(ctx context.Context, f *fence) (here, sent bool, err error)
	// alive says whether the connection can still be used.
	alive(ctx context.Context) bool
	// ending says why the transaction must not be committed: the handler tried to end it, or its time is up.
	ending(bound time.Duration) error
	// commit sends COMMIT. With sent false the transaction is not committed for certain.
	commit(ctx context.Context) (sent bool, err error)
	// close gives the connection back. A transaction that was not committed is rolled back, if its COMMIT was not sent.
	close(ctx context.Context) error
	leave(ctx context.Context) // closes the connection, where that can be done
}

// fence is the last statement of a transaction.
type fence struct {
	began *int64 // now() of the transaction; nil: it begins with the fence
	tune  string // sqlTxTune or sqlTxTuneOne
	sql   string
	args  []any
	dest  []any      // of its one row
	met   bool       // that was read
	ahead *statement // goes ahead of it; nil: nothing does
}

// pgxSession is a transaction of pgx.
type pgxSession struct {
	tx   *fencedTx
	over bool // nothing is left to be rolled back
}

func beginPgx(ctx context.Context, l *Ledger) (session, error) {
	conn, err := l.user.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	opts := pgx.TxOptions{IsoLevel: l.cfg.Isolation}
	return &pgxSession{tx: &fencedTx{pooled: conn, conn: conn.Conn(), opts: opts, limits: l.txLimits(), ctx: ctx}}, nil
}

func (s *pgxSession) begin(ctx context.Context) error {
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	_, err := s.tx.start(ctx)
	return err
}

func (s *pgxSession) mark() mark {
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	return s.tx.mark
}

func (s *pgxSession) publish(ctx context.Context, st *statement) error {
	_, err := s.tx.tx.Exec(ctx, st.sql, st.args...)
	return err
}

func (s *pgxSession) fence(ctx context.Context, f *fence) (here bool, err error) {
	err = s.tx.tx.SendBatch(ctx, f.batch(&here)).Close()
	return here, err
}

func (s *pgxSession) settle(ctx context.Context, f *fence) (here, sent bool, err error) {
	b := f.batch(&here)
	b.Queue("commit").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return pgx.ErrTxCommitRollback
		}
		return nil
	})
	sent = s.tx.status() != 0 // else the connection is gone, or has rows that the handler has not closed
	err = s.tx.carryOut(ctx, b)
	s.over = err == nil
	return here, sent && !s.stands(err), err
}

// stands says that what failed with err was not sent: the transaction is as it was, or pgx knows that the handler has ended it.
func (s *pgxSession) stands(err error) bool {
	return errors.Is(err, pgx.ErrTxClosed) || err != nil && s.tx.status() == 'T'
}

// tuned is what its settings are read into, behind which it is said whether it is in the transaction that began.
func (f *fence) tuned(here *bool) []any {
	var set string
	dest := []any{&set, &set, here}
	if f.tune == sqlTxTune {
		dest = append([]any{&set, &set, &set}, dest...)
	}
	return dest
}

// batch is a fence behind its settings.
func (f *fence) batch(here *bool) *pgx.Batch {
	b := &pgx.Batch{}
	if f.ahead != nil {
		b.Queue(f.ahead.sql, f.ahead.args...)
	}
	b.Queue(f.tune, f.began).QueryRow(func(row pgx.Row) error { return row.Scan(f.tuned(here)...) })
	b.Queue(f.sql, f.args...).QueryRow(func(row pgx.Row) error {
		err := row.Scan(f.dest...)
		f.met = err == nil
		return err
	})
	return b
}

func (s *pgxSession) alive(context.Context) bool { return !s.tx.conn.IsClosed() }

func (s *pgxSession) ending(time.Duration) error {
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	s.tx.over = true
	return cmp.Or(s.tx.refused, s.tx.failed)
}

func (s *pgxSession) commit(ctx context.Context) (bool, error) {
	s.over = true
	return true, s.tx.tx.Commit(ctx)
}

func (s *pgxSession) close(ctx context.Context) error {
	defer s.tx.pooled.Release() // which closes a connection that is in no good state
	s.tx.mu.Lock()
	defer s.tx.mu.Unlock()
	s.tx.over = true
	if s.tx.tx == nil || s.over {
		return nil
	}
	if err := s.tx.tx.Rollback(ctx); !errors.Is(err, pgx.ErrTxClosed) {
		return err
	}
	return nil
}

func (s *pgxSession) leave(ctx context.Context) { _ = s.tx.conn.Close(ctx) }

// sqlSession is a transaction of database/sql.
type sqlSession struct {
	tx   *fencedsql.Tx
	id   mark
	over bool // nothing is left to be rolled back
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
	return s, s.scan(ctx, sqlTxBegin, l.txLimits(), &s.id.began, &s.id.backend, &s.id.readOnly, &idle, &total)
}

func (s *sqlSession) begin(context.Context) error { return nil }

func (s *sqlSession) mark() mark { return s.id }

func (s *sqlSession) scan(ctx context.Context, query string, args []any, dest ...any) error {
	return s.tx.SQL().QueryRowContext(ctx, query, args...).Scan(dest...)
}

func (s *sqlSession) publish(ctx context.Context, st *statement) error {
	_, err := s.tx.SQL().ExecContext(ctx, st.sql, st.args...)
	return err
}

// fence takes two round trips, three with what was published: database/sql has no batches.
func (s *sqlSession) fence(ctx context.Context, f *fence) (here bool, err error) {
	if f.ahead != nil {
		if err := s.publish(ctx, f.ahead); err != nil {
			return false, err
		}
	}
	if err := s.scan(ctx, f.tune, []any{f.began}, f.tuned(&here)...); err != nil {
		return false, err
	}
	err = s.scan(ctx, f.sql, f.args, f.dest...)
	f.met = err == nil
	return here, err
}

func (s *sqlSession) settle(ctx context.Context, f *fence) (here, sent bool, err error) {
	if here, err = s.fence(ctx, f); err != nil {
		return here, false, err
	}
	sent, err = s.commit(ctx)
	return here, sent, err
}

func (s *sqlSession) alive(ctx context.Context) bool {
	var one int
	err := s.scan(ctx, "SELECT 1", nil, &one)
	if err == nil || errors.Is(err, sql.ErrTxDone) || rolledBack(err) { // as in a transaction that has failed
		return true
	}
	c, ok := s.tx.Conn().(*stdlib.Conn)
	return ok && errors.Is(err, driver.ErrBadConn) && !c.Conn().IsClosed() // busy: the handler has left rows open
}

func (s *sqlSession) ending(bound time.Duration) error { return s.tx.Ending(bound) }

func (s *sqlSession) commit(context.Context) (bool, error) {
	s.over = true
	return s.tx.Commit()
}

func (s *sqlSession) close(context.Context) error {
	if s.over {
		return nil
	}
	return s.tx.Rollback()
}

// leave leaves the connection to its pool: database/sql has no way to close that of a transaction.
func (s *sqlSession) leave(context.Context) {}
