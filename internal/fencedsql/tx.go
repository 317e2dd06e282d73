package fencedsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"
)

var (
	// ErrRefused says that the user called Commit or Rollback on a transaction that InTx had handed to him. It was
	// rolled back.
	ErrRefused = errors.New("the handler called Commit or Rollback on its transaction, which InTx alone may end: rolled back")

	// ErrTimeLimit says that the transaction outlived its time limit. It was rolled back.
	ErrTimeLimit = errors.New("the handler's transaction is over its time limit: rolled back")

	errFinished = errors.New("fencedsql: finished")
)

// Tx is the maker's side of one transaction. Its methods are called by one goroutine; the *sql.Tx may be used by many.
type Tx struct {
	sql    *sql.Tx
	guard  *guard
	limit  time.Duration
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

type guardKey struct{}

// guard is what both sides of a transaction know of it.
type guard struct {
	ctx context.Context // the transaction's own
	on  driver.Conn     // the driver's connection that it is on

	mu      sync.Mutex
	allowed bool // Commit is called by the maker
	sent    bool // COMMIT was handed to the driver
	refused error
}

// Begin begins a transaction that only the returned Tx can commit, on a database whose connector came from
// [Connector]. The transaction lives independently of ctx's cancellation, whose values it keeps: it ends by Commit or
// Rollback of the returned Tx, or is rolled back once it is older than limit (zero: none). ctx bounds the begin alone.
func Begin(ctx context.Context, db *sql.DB, opts *sql.TxOptions, limit time.Duration) (*Tx, error) {
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	g := &guard{ctx: own}
	// A driver keeps the context of BeginTx for the transaction's life, so ctx itself cannot be given to it.
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	tx, err := db.BeginTx(context.WithValue(own, guardKey{}, g), opts)
	if !stop() && err == nil {
		err = context.Cause(ctx)
		_ = tx.Rollback()
	}
	if err != nil {
		cancel(errFinished)
		return nil, err
	}
	t := &Tx{sql: tx, guard: g, limit: limit, cancel: cancel}
	if limit > 0 {
		t.timer = time.AfterFunc(limit, func() { cancel(ErrTimeLimit) })
	}
	return t, nil
}

// SQL returns the transaction to hand to the user, and to run the fence on.
func (t *Tx) SQL() *sql.Tx { return t.sql }

// Conn returns the driver's own connection that the transaction is on, which is another's once that is over.
func (t *Tx) Conn() driver.Conn { return t.guard.on }

// Ending ends the time limit of the user's part and starts that of the rest, fence and commit; it returns Err.
func (t *Tx) Ending(bound time.Duration) error {
	if t.timer != nil {
		t.timer.Stop()
	}
	if err := t.Err(); err != nil {
		return err
	}
	t.limit = bound
	t.timer = time.AfterFunc(bound, func() { t.cancel(ErrTimeLimit) })
	return nil
}

// Commit sends COMMIT. With sent true it was handed to the driver, so that an error may hide a commit that happened;
// with sent false the transaction is rolled back for certain.
func (t *Tx) Commit() (sent bool, err error) {
	t.guard.allow()
	err = t.sql.Commit()
	if doomed := t.Err(); err != nil && !t.guard.wasSent() && doomed != nil {
		err = doomed
	}
	sent = t.guard.wasSent()
	t.finish()
	return sent, err
}

// Rollback rolls back. It is harmless after a Commit, a refused one or another Rollback.
func (t *Tx) Rollback() error {
	t.guard.allow()
	err := t.sql.Rollback()
	t.finish()
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

func (t *Tx) finish() {
	if t.timer != nil {
		t.timer.Stop()
	}
	t.cancel(errFinished)
}

// Err returns why the transaction cannot be committed any more: [ErrRefused] or [ErrTimeLimit]; nil if it can.
func (t *Tx) Err() error {
	t.guard.mu.Lock()
	defer t.guard.mu.Unlock()
	if t.guard.refused != nil {
		return t.guard.refused
	}
	if cause := context.Cause(t.guard.ctx); cause != nil {
		if errors.Is(cause, ErrTimeLimit) && t.limit > 0 {
			return fmt.Errorf("%w (limit %s)", ErrTimeLimit, t.limit)
		}
		return cause
	}
	return nil
}

func (g *guard) allow() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.allowed = true
}

func (g *guard) wasSent() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sent
}

// mayCommit decides on a Commit that reached the driver, and notes it.
func (g *guard) mayCommit() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.allowed {
		g.refused = ErrRefused
		return false
	}
	g.sent = true
	return true
}

// noteRollback notes a Rollback that neither the maker nor database/sql (at the end of the context) asked for.
func (g *guard) noteRollback() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.allowed || g.ctx.Err() != nil {
		return nil
	}
	g.refused = ErrRefused
	return g.refused
}

// guardedTx is the driver's side of a guarded transaction.
type guardedTx struct {
	tx    driver.Tx
	conn  *conn
	guard *guard
}

// Commit commits for the maker, and rolls back for everybody else.
func (t *guardedTx) Commit() error {
	t.conn.guard = nil
	if t.guard.mayCommit() {
		return t.tx.Commit()
	}
	return errors.Join(ErrRefused, t.tx.Rollback())
}

// Rollback rolls back, and dooms the transaction if it was the user's.
func (t *guardedTx) Rollback() error {
	t.conn.guard = nil
	refused := t.guard.noteRollback()
	return errors.Join(refused, t.tx.Rollback())
}
