package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// turn is this process' right to write to a file: waiting for it is fair, waiting for SQLite's own lock is not.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn until ctx ends. A turn that is free is taken even then: the rest of a call whose time went by
// with waiting for a lock is not told of its time while that lock is held.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	default:
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return gaveUp(ctx)
	}
}

func (t turn) give() { <-t }

// gaveUp is the error of a wait for a lock that ctx ended.
func gaveUp(ctx context.Context) error {
	if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
}

// begin repeats a BEGIN IMMEDIATE until another process has given the write lock back or ctx ends. The attempts
// themselves are short (busyTimeout, seldom SQLite's ten seconds for a lost race) and are not cancelled in the middle.
func begin[T any](ctx context.Context, attempt func(context.Context) (T, error)) (T, error) {
	for {
		tx, err := attempt(context.WithoutCancel(ctx))
		if err == nil || !isBusy(err) {
			return tx, err
		}
		if ctx.Err() == nil {
			continue
		}
		if code(err) == sqlite3.SQLITE_PROTOCOL {
			return tx, err // not a transaction of anybody's: locks that do not work, if it happens again and again
		}
		return tx, gaveUp(ctx)
	}
}

// writer is the one connection of this process that writes to a file in short transactions.
type writer struct {
	db   *sql.DB // of one connection
	turn turn    // shared with InTx, where both write to one file

	mu      sync.Mutex
	sharers []*sharer // in the order in which they came
	came    uint64    // how many so far
}

// waiting is how long of a call's time is spent with waiting for the lock: not all of it, so that what comes after is in
// time, such as the answer of who waits for the caller's turn.
func waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-min(time.Until(end)/8, 500*time.Millisecond)))
}

// do runs fn in a transaction and commits it, unless ctx has ended by then: what is late is rolled back. An error for
// which ledger.Unknown is false means that nothing was written. The statements of fn are not cancelled in the middle.
func (w *writer) do(ctx context.Context, fn func(context.Context, *sql.Tx) error) error {
	came := time.Now()
	wait, cancel := waiting(ctx)
	defer cancel()
	if err := w.turn.take(wait); err != nil {
		return err
	}
	defer w.turn.give()
	tx, err := begin(wait, func(ctx context.Context) (*sql.Tx, error) { return w.db.BeginTx(ctx, nil) })
	if err != nil {
		return err
	}
	got := time.Now()
	if err = fn(context.WithoutCancel(ctx), tx); err == nil {
		err = tooLate(ctx, came, got)
	}
	if err != nil {
		return errors.Join(err, ended(tx.Rollback()))
	}
	if err := tx.Commit(); err != nil {
		return commitError(err)
	}
	return nil
}

// ended drops the error of a rollback that found nothing to roll back: SQLite ends a transaction by itself when the
// file is full or broken (https://www.sqlite.org/lang_transaction.html, "Response To Errors Within A Transaction").
func ended(err error) error {
	if errors.Is(err, sql.ErrTxDone) || code(err) == sqlite3.SQLITE_ERROR {
		return nil
	}
	return err
}
