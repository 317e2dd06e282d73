package spillsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/ackledger/ackledger/idempotency/spillsql"
	"github.com/ackledger/ackledger/internal/services"
)

// databases open an empty one each, and say which schemas it has.
var databases = map[string]func(*testing.T) *sql.DB{
	"PostgreSQL": func(t *testing.T) *sql.DB { return open(t, "pgx", services.Postgres(t).URL) },
	"SQLite": func(t *testing.T) *sql.DB {
		return open(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "spilled.db")+"?_pragma=busy_timeout(60000)")
	},
}

func open(t *testing.T, driver, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// everywhere runs a test on each database, with a table in it.
func everywhere(t *testing.T, run func(t *testing.T, s *spillsql.Spill, db *sql.DB)) {
	t.Parallel()
	for name, begin := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := begin(t)
			s, err := spillsql.New(db, "spilled")
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second finds it
				if err := s.Create(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			run(t, s, db)
		})
	}
}

func TestPutAndGet(t *testing.T) {
	everywhere(t, func(t *testing.T, s *spillsql.Spill, db *sql.DB) {
		data := []byte(strings.Repeat("\x00\xff data", 200_000))
		if err := s.Put(t.Context(), "a", data, time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context(), "a", []byte("another"), time.Hour); err == nil {
			t.Error("a name is put twice")
		}
		if got, err := s.Get(t.Context(), "a", len(data)); err != nil || string(got) != string(data) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		for name, size := range map[string]int{"a": len(data) - 1, "b": len(data)} {
			if got, err := s.Get(t.Context(), name, size); !errors.Is(err, fs.ErrNotExist) || got != nil {
				t.Errorf("%s of %d: %d bytes, %v", name, size, len(got), err)
			}
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Get(gone, "a", len(data)); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("an answer that nobody waited for: %v", err)
		}
		if _, err := db.ExecContext(t.Context(), "DROP TABLE spilled"); err != nil {
			t.Fatal(err)
		}
		_, got := s.Get(t.Context(), "a", len(data))
		_, swept := s.Sweep(t.Context())
		for _, err := range []error{s.Put(t.Context(), "c", data, time.Hour), got, swept} {
			if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "spillsql: ") {
				t.Errorf("without a table: %v", err)
			}
		}
	})
}

// What has expired goes, a bounded number at a time, whoever sweeps; what has not stays.
func TestSweep(t *testing.T) {
	everywhere(t, func(t *testing.T, s *spillsql.Spill, db *sql.DB) {
		const old, young = spillsql.SweepMax + 50, 20
		for n := range old + young {
			keep := time.Hour
			if n < old {
				keep = -time.Minute
			}
			if err := s.Put(t.Context(), fmt.Sprint("n", n), []byte("data"), keep); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := s.Sweep(t.Context()); n != spillsql.SweepMax || err != nil {
			t.Errorf("%d are removed at once, %v", n, err)
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if _, err := s.Sweep(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		var left int
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM spilled").Scan(&left); err != nil || left != young {
			t.Errorf("%d are left, %v", left, err)
		}
		if n, err := s.Sweep(t.Context()); n != 0 || err != nil {
			t.Errorf("%d more, %v", n, err)
		}
	})
}

func TestNames(t *testing.T) {
	t.Parallel()
	db := open(t, "sqlite", ":memory:")
	for _, name := range []string{"", "Spilled", "a b", "a;", `"a"`, "a.b.c", ".a", "1a", strings.Repeat("a", 56)} {
		if _, err := spillsql.New(db, name); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("is %q", name)) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := spillsql.New(nil, "spilled"); err == nil {
		t.Error("without a database")
	}
	if s, err := spillsql.New(db, "main.spilled"); err != nil || s == nil {
		t.Errorf("with a schema: %v", err)
	}
}

// A table in a schema of its own is found there, and so is its index made.
func TestSchema(t *testing.T) {
	t.Parallel()
	db := databases["PostgreSQL"](t)
	if _, err := db.ExecContext(t.Context(), "CREATE SCHEMA own"); err != nil {
		t.Fatal(err)
	}
	s, err := spillsql.New(db, "own.spilled")
	if err == nil {
		err = errors.Join(s.Create(t.Context()), s.Put(t.Context(), "a", []byte("data"), time.Hour))
	}
	var indexes int
	if err := errors.Join(err, db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_indexes WHERE schemaname = 'own'").Scan(&indexes)); err != nil || indexes != 2 {
		t.Errorf("%d indexes, %v", indexes, err)
	}
}
