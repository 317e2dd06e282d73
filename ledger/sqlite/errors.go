package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/ackledger/ackledger/internal/fencedsql"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

var (
	// ErrBusy says that the file's write lock was not free in the call's time: an InTx, of this process or another, holds
	// it. Nothing was written; ask again.
	ErrBusy = driver.MarkBusy(errors.New("ledger/sqlite: busy: another transaction holds the file's write lock"))

	// ErrRefused is in InTx's error if the handler called Commit or Rollback on the transaction. Nothing was written.
	ErrRefused = fencedsql.ErrRefused

	// ErrTimeLimit is in InTx's error if the transaction outlived Config.TxLimit. Nothing was written.
	ErrTimeLimit = fencedsql.ErrTimeLimit

	// ErrEnded is in InTx's error if the transaction was over before its handler returned: by a COMMIT or ROLLBACK
	// statement, or by SQLite itself after an error that the handler ignored (interrupted, disk full). What was committed
	// by such a statement, or executed after the end, is in the database, and the message is not succeeded.
	ErrEnded = errors.New("the handler's transaction was over before the handler returned: by a COMMIT or ROLLBACK statement, or by SQLite after an error")

	// errTooLate says that the call's deadline had passed just before COMMIT.
	errTooLate = errors.New("the call's time was up before COMMIT: nothing was written")
)

// code is SQLite's primary result code of err; 0 if there is none (https://www.sqlite.org/rescode.html).
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// tooLate is the error of a call that came at one time and had the write lock from another on, if its own time is up. Where
// most of that went by with waiting for the lock the file is busy: no disk was slow.
func tooLate(ctx context.Context, came, got time.Time) error {
	deadline, _ := ctx.Deadline()
	switch err := ctx.Err(); {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded) && deadline.After(came) && got.Sub(came) > time.Since(got):
		return fmt.Errorf("%w: %w: %w", ErrBusy, errTooLate, err)
	default:
		return fmt.Errorf("%w: %w", errTooLate, err)
	}
}

func isBusy(err error) bool {
	c := code(err)
	return c == sqlite3.SQLITE_BUSY || c == sqlite3.SQLITE_LOCKED || c == sqlite3.SQLITE_PROTOCOL
}

// reading reads up to three times, as long as SQLite loses its race with those who write and lock: it gives one up after
// about ten seconds, before anything is read (https://www.sqlite.org/rescode.html#protocol).
func reading(ctx context.Context, read func() error) error {
	for n := 1; ; n++ {
		if err := read(); code(err) != sqlite3.SQLITE_PROTOCOL || n == 3 || ctx.Err() != nil {
			return err
		}
	}
}

// openError is how an error of a set-up reads: what no waiting mends is Unusable.
func openError(path string, err error) error {
	if err == nil {
		return nil
	}
	if code(err) == sqlite3.SQLITE_CANTOPEN || errors.Is(err, os.ErrNotExist) { // SQLite says no more than that it cannot
		if _, missing := os.Stat(filepath.Dir(path)); missing != nil {
			err = fmt.Errorf("%w: its folder is to be made first: %w", err, missing)
		}
	}
	err = fmt.Errorf("ledger/sqlite: opening %s: %w", path, err)
	switch code(err) {
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOTADB,
		sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_AUTH:
		return ledger.MarkUnusable(err)
	}
	return err
}

// refused marks what SQLite refuses until somebody mends the file, its rights or its disk. It is a file: no network is away.
func refused(err error) error {
	switch code(err) {
	case sqlite3.SQLITE_ERROR, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FULL,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_NOTADB:
		return ledger.MarkRefused(err)
	}
	return err
}

// commitError is how the error of a COMMIT reads: SQLite says for certain that a busy or full file took nothing; after
// any other error it may have.
func commitError(err error) error {
	switch code(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL:
		return err
	}
	return ledger.MarkUnknown(err)
}
