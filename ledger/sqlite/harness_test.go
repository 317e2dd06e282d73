package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the application's own driver

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/ledgertest"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// app is the application beside the ledger: its own connections to both files.
type app struct{ main, owners *sql.DB }

func openApp(path string) (*app, error) {
	a := &app{}
	for suffix, db := range map[string]**sql.DB{"": &a.main, "-owners": &a.owners} {
		var err error
		uri := url.URL{Scheme: "file", Path: path + suffix, RawQuery: "_pragma=busy_timeout(60000)&_txlock=immediate"}
		if *db, err = sql.Open("sqlite", uri.String()); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *app) Close() error { return errors.Join(a.main.Close(), a.owners.Close()) }

type txKey struct{}

// storeOf is what the suite needs of a ledger and its application.
func storeOf(l *sqlite.Ledger, a *app, path string) ledgertest.Store {
	return ledgertest.Store{
		Ledger: l, Get: l.Get, DSN: path,
		Declare: func(ctx context.Context, id string) error {
			_, err := a.owners.ExecContext(ctx, "UPDATE ackledger_owner SET fate = 3 WHERE id = ? AND fate = 1", id)
			return err
		},
		Drop: a.drop,
		DropOwner: func(ctx context.Context, id string) error {
			_, err := a.owners.ExecContext(ctx, "DELETE FROM ackledger_owner WHERE id = ? AND fate <> 1", id)
			return err
		},
		Rest: func(ctx context.Context) error {
			_, err := a.owners.ExecContext(ctx, "UPDATE ackledger_owner SET fated_at = ? WHERE fate <> 1",
				time.Now().Add(-2*ledger.OwnerRest).UnixMicro())
			if err == nil {
				_, err = a.main.ExecContext(ctx, "UPDATE ackledger_maintenance SET lease_end = 0")
			}
			return err
		},
		Age: a.age,
		InTx: func(ctx context.Context, fn func(context.Context) error) error {
			return sqlite.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
				return fn(context.WithValue(ctx, txKey{}, tx))
			})
		},
		Effect: func(ctx context.Context, id string) error {
			_, err := ctx.Value(txKey{}).(*sql.Tx).ExecContext(ctx, "INSERT INTO effect (id) VALUES (?)", id)
			return err
		},
		Effects: func(ctx context.Context) (map[string]int, error) { return effects(ctx, a.main) },
	}
}

// drop removes what is known of a message: at once, or a claim in the middle runs and is dropped with the rest.
func (a *app) drop(ctx context.Context, key ledger.Key) error {
	tx, err := a.main.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	sum := key.Sum()
	_, err = tx.ExecContext(ctx, "DELETE FROM ackledger_message WHERE key = ?", sum[:])
	for _, table := range []string{"segment", "claim_range", "range_log"} {
		if err == nil && key.Pos != nil {
			_, err = tx.ExecContext(ctx, "DELETE FROM ackledger_"+table+" WHERE log = ?", sum[:8])
		}
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}

// age makes all that is in the ledger's file look older.
func (a *app) age(ctx context.Context, d time.Duration) error {
	tx, err := a.main.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	for table, columns := range map[string][]string{
		"message": {"due", "at", "expiry"}, "archive": {"at", "expiry"}, "segment": {"since", "until", "expiry"},
		"claim_range": {"at"}, "range_log": {"start_at"},
	} {
		for _, column := range columns {
			if _, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE ackledger_%s SET %s = %[2]s - ?", table, column), d.Microseconds()); err != nil {
				return err
			}
		}
	}
	return tx.Commit()
}

func effects(ctx context.Context, db *sql.DB) (map[string]int, error) {
	rows, err := db.QueryContext(ctx, "SELECT id, count(*) FROM effect GROUP BY id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]int{}
	for rows.Next() {
		var id string
		var n int
		if err := rows.Scan(&id, &n); err != nil {
			return nil, err
		}
		out[id] = n
	}
	return out, rows.Err()
}

const createEffect = "CREATE TABLE IF NOT EXISTS effect (id TEXT NOT NULL)"

// open is a fresh ledger for one case.
func open(t *testing.T) ledgertest.Store {
	t.Helper()
	path := sqlite.Fresh(t)
	l, a := openAt(t, path, nil)
	return storeOf(l, a, path)
}

// openAt opens a ledger and its application.
func openAt(t *testing.T, path string, c *sqlite.Config) (*sqlite.Ledger, *app) {
	t.Helper()
	l, err := sqlite.Open(t.Context(), path, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	a, err := openApp(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if _, err := a.main.ExecContext(t.Context(), createEffect); err != nil {
		t.Fatal(err)
	}
	return l, a
}

type closers []io.Closer

func (c closers) Close() error {
	var errs []error
	for _, one := range c {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

// openAgain opens the ledger of a test in a second process.
func openAgain(ctx context.Context, dsn string) (ledgertest.Store, io.Closer, error) {
	l, err := sqlite.Open(ctx, dsn, nil)
	if err != nil {
		return ledgertest.Store{}, nil, err
	}
	a, err := openApp(dsn)
	if err != nil {
		return ledgertest.Store{}, nil, errors.Join(err, l.Close())
	}
	return storeOf(l, a, dsn), closers{l, a}, nil
}
