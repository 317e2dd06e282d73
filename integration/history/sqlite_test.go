package history_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the connections beside the ledger's own

	"github.com/ackledger/ackledger/ledger/sqlite"
)

// beside opens a connection of somebody else to one of the ledger's files.
func beside(path string) (*sql.DB, error) {
	uri := url.URL{Scheme: "file", Path: path, RawQuery: "_pragma=busy_timeout(20000)&_txlock=immediate"}
	db, err := sql.Open("sqlite", uri.String())
	if err == nil {
		db.SetMaxOpenConns(2)
	}
	return db, err
}

const sealSQLite = "UPDATE ackledger_owner SET fate = 3 WHERE id = ? AND fate = 1"

// doorSQLite is a way to the ledger at path; it stays open until close.
func doorSQLite(ctx context.Context, path string) (d door, closer func(), err error) {
	opening, cancel := context.WithTimeout(ctx, time.Minute) // another process may be at it
	defer cancel()
	l, err := sqlite.Open(opening, path, nil)
	if err != nil {
		return door{}, nil, err
	}
	owners, err := beside(path + "-owners")
	if err != nil {
		return door{}, nil, err
	}
	d = door{ledger: l, operate: l, limit: hurried(10*time.Second, 15*time.Millisecond), declare: func(ctx context.Context, id string) error {
		_, err := owners.ExecContext(ctx, sealSQLite, id)
		return err
	}}
	return d, func() { _, _ = owners.Close(), l.Close() }, nil
}

func childSQLite(ctx context.Context, path string) (door, error) {
	d, _, err := doorSQLite(ctx, path)
	return d, err
}

// files is how many ledgers there are side by side: each has one writer at a time.
const files = 4

// newSQLite is ledgers in files, used by this process and a crew, while somebody else holds its locks now and then.
func newSQLite(t *testing.T, name string, ranged bool) *site {
	t.Helper()
	dir := t.TempDir()
	path := func(p plan) string { return filepath.Join(dir, fmt.Sprintf("ledger-%d.db", p.Number%files)) }
	doors := map[string]door{}
	for i := range files {
		path := path(plan{Number: i})
		d, closer, err := doorSQLite(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(closer)
		doors[path] = d
		hold(t, path)
		hold(t, path+"-owners")
	}
	return &site{
		name: name, ranged: ranged, snapshots: true, pieces: ranged, busy: true, crew: newCrew(t, "sqlite", path, 500*time.Millisecond),
		open: func(p plan) (door, door) {
			d := doors[path(p)]
			calm := d
			calm.limit = func(*rand.Rand) time.Duration { return endLimit }
			return d, calm
		},
	}
}

// hold takes the write lock of a file for some milliseconds, again and again, until the test ends.
func hold(t *testing.T, path string) {
	t.Helper()
	db, err := beside(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			wait(ctx, time.Duration(rand.IntN(200))*time.Millisecond)
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				continue // busy, or the end
			}
			wait(ctx, time.Duration(rand.IntN(30))*time.Millisecond)
			_ = tx.Rollback() // nothing was written
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	newSQLite(t, "sqlite", false).check(t, histories(t, 100, 10_000))
}
