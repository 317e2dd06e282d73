package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
	moderncsqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// breakTx breaks the COMMIT of InTx.
type breakTx struct {
	driver.Connector
	commit func(driver.Tx) error
}

func (b breakTx) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := b.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &brokenConn{c.(fullConn), b.commit}, nil
}

type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
}

type brokenConn struct {
	fullConn
	commit func(driver.Tx) error
}

func (c *brokenConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := c.fullConn.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	return &brokenTx{tx, c.commit}, nil
}

type brokenTx struct {
	driver.Tx
	commit func(driver.Tx) error
}

func (t *brokenTx) Commit() error { return t.commit(t.Tx) }

var errWire = errors.New("the answer was lost")

func broken(settle time.Duration, commit func(driver.Tx) error) *sqlite.Config {
	return new(sqlite.Config).Break(nil, func(c driver.Connector) driver.Connector { return breakTx{c, commit} }, settle)
}

// The COMMIT landed and its answer was lost: the row is read, and says so. Nothing runs again.
func TestPitfall25_CommitAnswerLost(t *testing.T) {
	t.Parallel()
	r := newRun(t, broken(0, func(tx driver.Tx) error { return errors.Join(errWire, tx.Commit()) }))
	if err := sqlite.InTx(r.ctx, effect); err != nil {
		t.Errorf("InTx: %v; the row says that it was committed", err)
	}
	r.want(ledger.AttemptSucceeded, 1, ledger.Succeeded)
}

// The COMMIT was aborted and its answer lost: repeating the settle would mark as succeeded what was rolled back.
func TestPitfall119_CommitAborted(t *testing.T) {
	t.Parallel()
	r := newRun(t, broken(0, func(tx driver.Tx) error { return errors.Join(errWire, tx.Rollback()) }))
	err := sqlite.InTx(r.ctx, effect)
	if !errors.Is(err, errWire) || ledger.Unknown(err) {
		t.Errorf("InTx: %v; want the COMMIT's error, and known to be rolled back", err)
	}
	r.want(ledger.AttemptOpen, 0, ledger.Pending)
}

// A COMMIT that SQLite refuses for certain, since the file is busy or its disk is full, was none: the handler's run is an attempt.
func TestCommitRefusedForCertain(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "busy.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	holder, err := db.Conn(t.Context())
	if err == nil {
		_, err = holder.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	}
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(t, broken(0, func(tx driver.Tx) error {
		_, busy := db.ExecContext(context.Background(), "BEGIN IMMEDIATE")
		return errors.Join(busy, tx.Rollback())
	}))
	var refused *moderncsqlite.Error
	if err := sqlite.InTx(r.ctx, effect); !errors.As(err, &refused) || refused.Code()&0xff != sqlite3.SQLITE_BUSY || ledger.Unknown(err) {
		t.Errorf("InTx: %v; want SQLITE_BUSY, and known to be rolled back", err)
	}
	r.want(ledger.AttemptOpen, 0, ledger.Pending)
}

// The COMMIT's answer is lost and the row cannot be read either: nobody may acknowledge, and nobody may settle.
func TestPitfall25_StillUnknown(t *testing.T) {
	t.Parallel()
	var r *run
	var blocker *sql.Tx
	r = newRun(t, broken(2500*time.Millisecond, func(tx driver.Tx) error {
		err := tx.Commit()
		var beginErr error
		blocker, beginErr = r.app.main.BeginTx(context.Background(), nil) // nobody gets the write lock any more
		return errors.Join(errWire, err, beginErr)
	}))
	err := sqlite.InTx(r.ctx, effect)
	if !errors.Is(err, errWire) || !ledger.Unknown(err) {
		t.Errorf("InTx: %v; want an unknown answer", err)
	}
	if err := blocker.Rollback(); err != nil {
		t.Fatal(err)
	}
	r.want(ledger.AttemptUnknown, 1, ledger.Succeeded)
}
