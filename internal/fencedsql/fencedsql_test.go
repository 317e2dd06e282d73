package fencedsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/ackledger/ackledger/internal/fencedsql"
)

// sqliteConnector is a connector of a real driver.
type sqliteConnector struct{ dsn string }

func (c sqliteConnector) Connect(context.Context) (driver.Conn, error) {
	return (&sqlite.Driver{}).Open(c.dsn)
}
func (c sqliteConnector) Driver() driver.Driver { return &sqlite.Driver{} }

func open(t *testing.T) *sql.DB {
	t.Helper()
	dsn := "file:" + filepath.Join(t.TempDir(), "x.db") + "?_pragma=journal_mode(wal)&_pragma=busy_timeout(5000)"
	db := sql.OpenDB(fencedsql.Connector(sqliteConnector{dsn}))
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	db.SetMaxOpenConns(1) // so that a connection that is given back with an open transaction would be seen
	if _, err := db.ExecContext(t.Context(), "create table x (n integer)"); err != nil {
		t.Fatal(err)
	}
	return db
}

func count(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "select count(*) from x").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func begin(t *testing.T, db *sql.DB, limit time.Duration) *fencedsql.Tx {
	t.Helper()
	tx, err := fencedsql.Begin(t.Context(), db, nil, limit)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.SQL().ExecContext(t.Context(), "insert into x values (?)", 1); err != nil {
		t.Fatal(err)
	}
	return tx
}

func TestMakerCommits(t *testing.T) {
	t.Parallel()
	db := open(t)
	tx := begin(t, db, time.Minute)
	if err := tx.Ending(time.Minute); err != nil {
		t.Fatal(err)
	}
	if sent, err := tx.Commit(); !sent || err != nil {
		t.Fatalf("sent %v, error %v", sent, err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatalf("a rollback behind the commit: %v", err)
	}
	if n := count(t, db); n != 1 {
		t.Fatalf("%d rows, want 1", n)
	}
}

func TestMakerRollsBack(t *testing.T) {
	t.Parallel()
	db := open(t)
	tx := begin(t, db, 0)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if n := count(t, db); n != 0 {
		t.Fatalf("%d rows, want 0", n)
	}
}

func TestUsersEndIsRefused(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*sql.Tx) error{"Commit": (*sql.Tx).Commit, "Rollback": (*sql.Tx).Rollback} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t)
			tx := begin(t, db, time.Minute)
			if err := end(tx.SQL()); !errors.Is(err, fencedsql.ErrRefused) {
				t.Fatalf("the user got %v", err)
			}
			if n := count(t, db); n != 0 { // on the same connection: nothing is left open on it
				t.Fatalf("%d rows, want 0", n)
			}
			if err := tx.Ending(time.Minute); !errors.Is(err, fencedsql.ErrRefused) {
				t.Fatalf("Ending: %v", err)
			}
			if sent, err := tx.Commit(); sent || !errors.Is(err, fencedsql.ErrRefused) {
				t.Fatalf("sent %v, error %v", sent, err)
			}
			if n := count(t, db); n != 0 {
				t.Fatalf("%d rows after all, want 0", n)
			}
		})
	}
}

func TestTimeLimitRollsBack(t *testing.T) {
	t.Parallel()
	db := open(t)
	tx, err := fencedsql.Begin(t.Context(), db, nil, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	// The limit may end the transaction before the insert, or in it.
	_, err = tx.SQL().ExecContext(t.Context(), "insert into x values (1)")
	if err != nil && !errors.Is(err, sql.ErrTxDone) && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if n := count(t, db); n != 0 { // waits for the one connection, which the limit frees
		t.Fatalf("%d rows, want 0", n)
	}
	if err := tx.Ending(time.Minute); !errors.Is(err, fencedsql.ErrTimeLimit) {
		t.Fatalf("Ending: %v", err)
	}
	if sent, err := tx.Commit(); sent || !errors.Is(err, fencedsql.ErrTimeLimit) {
		t.Fatalf("sent %v, error %v", sent, err)
	}
}

func TestCancelledBeginContextDoesNotEndIt(t *testing.T) {
	t.Parallel()
	db := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	tx, err := fencedsql.Begin(ctx, db, nil, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := tx.SQL().ExecContext(t.Context(), "insert into x values (1)"); err != nil {
		t.Fatal(err)
	}
	if sent, err := tx.Commit(); !sent || err != nil {
		t.Fatalf("sent %v, error %v", sent, err)
	}
	if n := count(t, db); n != 1 {
		t.Fatalf("%d rows, want 1", n)
	}
}

func TestBeginGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	db := open(t)
	holder := begin(t, db, 0) // has the one connection
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := fencedsql.Begin(ctx, db, nil, time.Minute); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if err := holder.Rollback(); err != nil {
		t.Fatal(err)
	}
}

func TestOtherTransactionsAreUntouched(t *testing.T) {
	t.Parallel()
	db := open(t)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	stmt, err := tx.PrepareContext(t.Context(), "insert into x values (?)")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stmt.ExecContext(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if n := count(t, db); n != 1 {
		t.Fatalf("%d rows, want 1", n)
	}
	if err := db.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// oldConn knows no contexts.
type oldConn struct{ closed *bool }

func (oldConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("old") }
func (c oldConn) Close() error                      { *c.closed = true; return nil }
func (oldConn) Begin() (driver.Tx, error)           { return nil, errors.New("old") }

type oldConnector struct {
	sqliteConnector
	closed *bool
}

func (c oldConnector) Connect(context.Context) (driver.Conn, error) { return oldConn{c.closed}, nil }

func TestOldDriverIsRefused(t *testing.T) {
	t.Parallel()
	var closed bool
	if _, err := fencedsql.Connector(oldConnector{closed: &closed}).Connect(t.Context()); err == nil || !closed {
		t.Fatalf("error %v, closed %v", err, closed)
	}
}
