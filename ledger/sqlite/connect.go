package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
)

// busyTimeout is how long SQLite itself waits for another process' lock before it answers that it is busy. It is short
// because a waiting statement cannot be interrupted; whoever waits longer asks again.
const busyTimeout = 50 * time.Millisecond

// connector opens connections to one file, each with the settings that durability rests on.
type connector struct {
	driver.Connector
	attach string // the owners file to read, as a URI; empty: none
	pragma []string
}

// newConnector makes a connector to the file at path. Transactions begin IMMEDIATE: what will write has the write lock
// from its first statement on, so it never fails in the middle because another process was faster.
func newConnector(path string, pragma ...string) (*connector, error) {
	base, err := sqlite.NewConnector(fileURI(path) + "?_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("ledger/sqlite: %s: %w", path, err)
	}
	fixed := []string{
		fmt.Sprintf("busy_timeout = %d", busyTimeout.Milliseconds()),
		"cache_size = -32768",       // 32 MiB, and
		"wal_autocheckpoint = 4000", // 16 MiB: a fifth less system time in batches of 500 than with the defaults
		"synchronous = FULL",        // https://www.sqlite.org/pragma.html#pragma_synchronous: in WAL mode, NORMAL may lose commits
	}
	return &connector{Connector: base, pragma: append(fixed, pragma...)}, nil
}

// attaching makes the connections see the file at path as the schema "owners", read-only: BEGIN IMMEDIATE takes the
// write lock of every attached file that it could write, and a beat must never wait for a claim.
func (c *connector) attaching(path string) *connector {
	c.attach = fileURI(path) + "?mode=ro"
	return c
}

// Connect opens and sets up a connection.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	dc, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.setUp(ctx, dc); err != nil {
		_ = dc.Close()
		return nil, err
	}
	return dc, nil
}

func (c *connector) setUp(ctx context.Context, dc driver.Conn) error {
	ex, ok := dc.(driver.ExecerContext)
	if !ok {
		return fmt.Errorf("ledger/sqlite: the driver's connection (%T) cannot execute", dc)
	}
	for _, p := range c.pragma {
		if err := patiently(ctx, ex, "PRAGMA "+p, nil); err != nil {
			return fmt.Errorf("PRAGMA %s: %w", p, err)
		}
	}
	if c.attach == "" {
		return nil
	}
	args := []driver.NamedValue{{Ordinal: 1, Value: c.attach}}
	if err := patiently(ctx, ex, "ATTACH ? AS owners", args); err != nil {
		return fmt.Errorf("attaching the owners file: %w", err)
	}
	return nil
}

// patiently executes until the file is not busy. While another process recovers or closes a file, whoever opens it is told
// so at once or after busyTimeout (https://www.sqlite.org/wal.html, "Sometimes Queries Return SQLITE_BUSY In WAL Mode").
func patiently(ctx context.Context, ex driver.ExecerContext, statement string, args []driver.NamedValue) error {
	for {
		_, err := ex.ExecContext(ctx, statement, args)
		if !isBusy(err) || pause(ctx) != nil {
			return err
		}
	}
}

// fileURI is path as SQLite's URI file name (https://www.sqlite.org/uri.html), so that odd characters are safe.
func fileURI(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}

// openPool opens a pool of at most n connections, which stay open.
func openPool(c driver.Connector, n int) *sql.DB {
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db
}
