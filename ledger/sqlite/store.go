package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// store implements [driver.Store] on two files.
type store struct {
	path   string
	cfg    Config
	host   string
	main   *writer    // claims, settles and what operators write
	owners *writer    // joins, beats and leaves
	read   *sql.DB    // lists
	tx     *sql.DB    // InTx
	stmts  statements // on the connection of the claims and settles
	fence  statements // on that of InTx
	scopes scopeCache
}

var _ driver.Store = (*store)(nil)

// Now implements [driver.Store]. It is the clock by which leases in the file end, which goes on while the machine sleeps; the
// monotonic one, by which Go compares times that have it, does not on Linux (clock_gettime(2), CLOCK_MONOTONIC): the first
// worker to beat after that would find its own chain unbroken and all others overdue.
func (s *store) Now() time.Time { return time.Now().Round(0) }

// Update implements [driver.Store]. Claims and settlements share transactions.
func (s *store) Update(ctx context.Context, call driver.Call, fn func(driver.Tx) error) error {
	var t *tx
	run := func(ctx context.Context, in *sql.Tx) error {
		t = s.newTx(ctx, in, s.stmts)
		t.main = true
		return fn(t)
	}
	var err error
	switch call.Op {
	case driver.Claim, driver.Settle:
		err = s.main.share(ctx, call.Len(), run)
	default:
		err = s.main.do(ctx, run)
	}
	if err == nil {
		s.scopes.keep(t.scopes)
	}
	return refused(err)
}

// View implements [driver.Store].
func (s *store) View(ctx context.Context, _ driver.Call, fn func(driver.Reader) error) error {
	return reading(ctx, func() error {
		in, err := s.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		defer func() { _ = in.Rollback() }() // it only read
		return fn(s.newTx(ctx, in, nil))
	})
}

// Tables implements [driver.Store]. Rows are estimated from the first and the last number in a table; SQLite keeps no size of
// one table, so the entry "file" has the size of the main file, indexes included.
func (s *store) Tables(ctx context.Context) (all []ledger.TableStats, err error) {
	count := func(text string) (n int64) {
		if err == nil {
			err = s.read.QueryRowContext(ctx, text).Scan(&n)
		}
		return n
	}
	for _, table := range []string{"message", "archive"} {
		all = append(all, ledger.TableStats{Name: table, Rows: count("SELECT coalesce((SELECT max(num) FROM ackledger_" + table +
			") - (SELECT min(num) FROM ackledger_" + table + ") + 1, 0)")})
	}
	for _, table := range []string{"segment", "claim_range"} {
		all = append(all, ledger.TableStats{Name: table, Rows: count("SELECT count(*) FROM ackledger_" + table)})
	}
	return append(all, ledger.TableStats{Name: "file", Rows: -1, Bytes: count("PRAGMA page_count") * count("PRAGMA page_size")}), err
}

// Join implements [driver.Owners]. A newer program may have migrated the file since it was opened.
func (s *store) Join(ctx context.Context, lease time.Duration) (id driver.OwnerID, err error) {
	if _, err := checkSchema(ctx, s.read, s.path); err != nil {
		return 0, err
	}
	err = s.owners.do(ctx, func(ctx context.Context, in *sql.Tx) error {
		now := time.Now()
		return in.QueryRowContext(ctx, "INSERT INTO ackledger_owner (lease_end, fate, host, joined, knows) VALUES (?, 1, ?, ?, ?) RETURNING id",
			now.Add(lease).UnixMicro(), s.host, now.UnixMicro(), schemaVersion).Scan(&id)
	})
	return id, refused(err)
}

// Beat implements [driver.Owners].
func (s *store) Beat(ctx context.Context, id driver.OwnerID, lease time.Duration, report []byte) error {
	return refused(s.owners.do(ctx, func(ctx context.Context, in *sql.Tx) error {
		res, err := in.ExecContext(ctx, "UPDATE ackledger_owner SET lease_end = ?, report = ? WHERE id = ? AND fate = 1",
			time.Now().Add(lease).UnixMicro(), report, id)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(ledger.ErrLost, err)
		}
		return nil
	}))
}

// Seal implements [driver.Owners]. The beat of a peer that it declares dead is another transaction on the same file, so either
// it came before, and the peer is not overdue, or it finds itself dead.
func (s *store) Seal(ctx context.Context, caller driver.OwnerID) error {
	return s.own(ctx, "UPDATE ackledger_owner SET fate = 3, fated_at = ?1 WHERE fate = 1 AND lease_end < ?1 AND id <> ?2", caller)
}

// Leave implements [driver.Owners].
func (s *store) Leave(ctx context.Context, id driver.OwnerID) error {
	return s.own(ctx, "UPDATE ackledger_owner SET fate = 2, fated_at = ?1 WHERE id = ?2 AND fate = 1", id)
}

// own executes one statement on the owners file: ?1 is the time, ?2 an owner.
func (s *store) own(ctx context.Context, text string, id driver.OwnerID) error {
	return refused(s.owners.do(ctx, func(ctx context.Context, in *sql.Tx) error {
		_, err := in.ExecContext(ctx, text, time.Now().UnixMicro(), id)
		return err
	}))
}

// CountOwners implements [driver.Owners].
func (s *store) CountOwners(ctx context.Context) (n ledger.OwnerStats, err error) {
	err = s.owners.db.QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE fate = 1),
		count(*) FILTER (WHERE fate = 1 AND lease_end < ?), count(*) FILTER (WHERE fate = 2), count(*) FILTER (WHERE fate = 3)
		FROM ackledger_owner`, time.Now().UnixMicro()).Scan(&n.Live, &n.Overdue, &n.Left, &n.Dead)
	return n, err
}

// RemoveOwners implements [driver.Owners]. Fates that were written without a time count from now on.
func (s *store) RemoveOwners(ctx context.Context, before time.Time, named func(driver.OwnerID) bool) (n int64, err error) {
	err = s.owners.do(ctx, func(ctx context.Context, in *sql.Tx) error {
		_, err := in.ExecContext(ctx, "UPDATE ackledger_owner SET fated_at = ? WHERE fate <> 1 AND fated_at IS NULL", time.Now().UnixMicro())
		var gone []driver.OwnerID
		if err == nil {
			err = query(ctx, in, "SELECT id FROM ackledger_owner WHERE fate <> 1 AND fated_at < ?", []any{before.UnixMicro()}, func(rows scanner) error {
				var id driver.OwnerID
				err := rows.Scan(&id)
				if !named(id) {
					gone = append(gone, id)
				}
				return err
			})
		}
		for _, id := range gone {
			if err == nil {
				_, err = in.ExecContext(ctx, "DELETE FROM ackledger_owner WHERE id = ? AND fate <> 1", id)
			}
		}
		n = int64(len(gone))
		return err
	})
	return n, err
}

// AddDeliveries implements [driver.Owners]. It is one short transaction on the owners file, which no InTx keeps. A ledger that
// is given a new owners file ([Config].NewOwners) counts from zero.
func (s *store) AddDeliveries(ctx context.Context, more []ledger.Deliveries) error {
	return s.owners.do(ctx, func(ctx context.Context, in *sql.Tx) error {
		for _, d := range more {
			_, err := in.ExecContext(ctx, `INSERT INTO ackledger_delivery AS d (scope, since, misses, hits, timeouts) VALUES (?, ?, ?, ?, ?)
				ON CONFLICT DO UPDATE SET misses = d.misses + excluded.misses, hits = d.hits + excluded.hits,
				timeouts = d.timeouts + excluded.timeouts`, []byte(d.Scope), time.Now().UnixMicro(), d.Misses, d.Hits, d.Timeouts)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Deliveries implements [driver.Owners].
func (s *store) Deliveries(ctx context.Context) (all []ledger.Deliveries, err error) {
	err = query(ctx, s.owners.db, `SELECT scope, since, misses, hits, timeouts FROM ackledger_delivery
		ORDER BY misses + hits DESC, scope LIMIT ?`, []any{ledger.MaxStatScopes}, func(rows scanner) error {
		var d ledger.Deliveries
		var scope []byte
		var since int64
		err := rows.Scan(&scope, &since, &d.Misses, &d.Hits, &d.Timeouts)
		d.Scope, d.Since = string(scope), moment(since)
		all = append(all, d)
		return err
	})
	return all, err
}

// scopeCache holds committed scopes, which never change.
type scopeCache struct {
	mu  sync.Mutex
	ids map[string]int64
}

const maxScopes = 1024 // a program has a handful; more are looked up again

func (c *scopeCache) get(name string) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, ok := c.ids[name]
	return id, ok
}

func (c *scopeCache) keep(ids map[string]int64) {
	if len(ids) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids == nil || len(c.ids)+len(ids) > maxScopes {
		c.ids = make(map[string]int64)
	}
	for name, id := range ids {
		if len(c.ids) < maxScopes {
			c.ids[name] = id
		}
	}
}

// scanner is a row that was read.
type scanner interface{ Scan(dest ...any) error }

// query calls scan for each row.
func query(ctx context.Context, q interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}, text string, args []any, scan func(scanner) error,
) error {
	return reading(ctx, func() error {
		rows, err := q.QueryContext(ctx, text, args...)
		if err != nil {
			return err
		}
		return scanAll(rows, scan)
	})
}

func scanAll(rows *sql.Rows, scan func(scanner) error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// statements are prepared once, on one connection, by their text.
type statements map[string]*sql.Stmt

var (
	callTexts = []string{
		sqlScope, sqlOwner, sqlInsert, sqlMessage, sqlPut, sqlSucceed, sqlFile, sqlAlter, sqlRemove, sqlLog, sqlPutLog, sqlTrim,
		sqlRanges, sqlPutRange, sqlDropRange, sqlSegments, sqlPutSegment, sqlDropSegment, sqlRows, sqlNext, sqlPark, sqlPostpone, sqlUnpark, sqlIsParked,
	}
	fenceTexts = []string{sqlSavepoint, sqlRelease, sqlSucceed, sqlMessage, sqlRanges, sqlPutRange, sqlInsert}
)

func (s statements) prepare(ctx context.Context, db *sql.DB, texts []string) error {
	for _, text := range texts {
		stmt, err := db.PrepareContext(context.WithoutCancel(ctx), text)
		if err != nil {
			return fmt.Errorf("preparing %.40q: %w", text, err)
		}
		s[text] = stmt
	}
	return nil
}

func (s statements) close() error {
	var errs []error
	for _, stmt := range s {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(errs...)
}
