package spillsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"github.com/ackledger/ackledger/idempotency"
)

// SweepMax is how many rows one call of [Spill.Sweep] removes at most.
const SweepMax = 100

// Spill keeps results in a table. Build it with [New]. All methods may be called concurrently, by any number of processes.
type Spill struct {
	db    *sql.DB
	table string

	insert, find, sweep string
}

var _ idempotency.Spill = (*Spill)(nil)

// tableName is what goes into statements as it is.
var tableName = regexp.MustCompile(`^([a-z_][a-z0-9_]{0,54}\.)?[a-z_][a-z0-9_]{0,54}$`)

// New builds a spill over a table, by its name of at most 55 of a-z, 0-9 and "_", with or without its schema's ("idempotency.spilled").
// Nothing is asked of the database. The caller closes db after the runners have ended. A pool of its own spares transactions: one that
// calls idempotency.SetResult holds one connection, and asks for another.
func New(db *sql.DB, table string) (*Spill, error) {
	switch {
	case db == nil:
		return nil, errors.New("spillsql: New: the database must not be nil")
	case !tableName.MatchString(table):
		return nil, fmt.Errorf("spillsql: New: the table's name must be at most 55 of a-z, 0-9 and _, with or without its schema's, is %q", table)
	}
	return &Spill{
		db: db, table: table,
		insert: "INSERT INTO " + table + " (name, expiry, data) VALUES ($1, $2, $3)",
		find:   "SELECT data FROM " + table + " WHERE name = $1 AND length(data) = $2",
		sweep:  "DELETE FROM " + table + " WHERE name IN (SELECT name FROM " + table + " WHERE expiry < $1 ORDER BY expiry LIMIT $2)",
	}, nil
}

// Create makes the table and its index, unless they are there. It needs the right to; the other methods do not.
func (s *Spill) Create(ctx context.Context) error {
	index := s.table[strings.LastIndexByte(s.table, '.')+1:] + "_expiry"
	for _, statement := range []string{
		"CREATE TABLE IF NOT EXISTS " + s.table + " (name TEXT PRIMARY KEY, expiry BIGINT NOT NULL, data BYTEA NOT NULL)",
		"CREATE INDEX IF NOT EXISTS " + index + " ON " + s.table + " (expiry)",
	} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("spillsql: create %s: %w", s.table, err)
		}
	}
	return nil
}

// Put implements [idempotency.Spill]. The row's time is this process' clock.
func (s *Spill) Put(ctx context.Context, name string, data []byte, keep time.Duration) error {
	if _, err := s.db.ExecContext(ctx, s.insert, name, time.Now().Add(keep).Unix()+1, data); err != nil {
		return fmt.Errorf("spillsql: put into %s: %w", s.table, err)
	}
	return nil
}

// Get implements [idempotency.Spill].
func (s *Spill) Get(ctx context.Context, name string, size int) (data []byte, err error) {
	err = s.db.QueryRowContext(ctx, s.find, name, size).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("spillsql: %s has no %s of %d bytes: %w", s.table, name, size, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("spillsql: get from %s: %w", s.table, err)
	}
	return data, nil
}

// Sweep removes what has expired, the oldest first, at most [SweepMax] rows, and says how many these were. As many say that there may be
// more. Any process may call it, such as once a minute, and again at once while there is more.
func (s *Spill) Sweep(ctx context.Context) (removed int64, err error) {
	result, err := s.db.ExecContext(ctx, s.sweep, time.Now().Unix(), SweepMax)
	if err == nil {
		removed, err = result.RowsAffected()
	}
	if err != nil {
		return 0, fmt.Errorf("spillsql: sweep %s: %w", s.table, err)
	}
	return removed, nil
}
