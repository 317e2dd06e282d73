package http_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // database/sql for those who count
	_ "modernc.org/sqlite"             // the same

	"github.com/ackledger/ackledger/integration/http/plan"
	"github.com/ackledger/ackledger/internal/services"
	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// database is a ledger and its effects, as a test sees them.
type database struct {
	store, where string
	db           *sql.DB
}

// open makes a fresh ledger with the tables of package plan.
func open(t *testing.T, store string) *database {
	t.Helper()
	driver, source := "sqlite", ""
	d := &database{store: store}
	if store == "postgres" {
		d.where = services.Postgres(t).URL
		config, err := pgx.ParseConfig(d.where)
		if err == nil {
			err = postgres.Migrate(t.Context(), config, postgres.DefaultSchema)
		}
		if err != nil {
			t.Fatal(err)
		}
		driver, source = "pgx", d.where
	} else {
		d.where = filepath.Join(t.TempDir(), "ledger.db")
		l, err := sqlite.Open(t.Context(), d.where, nil) // makes its tables
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		source = "file:" + d.where + "?_pragma=busy_timeout(30000)"
	}
	var err error
	if d.db, err = sql.Open(driver, source); err != nil {
		t.Fatal(err)
	}
	d.db.SetMaxOpenConns(2)
	t.Cleanup(func() { _ = d.db.Close() }) // nothing is written through it
	for _, table := range []string{plan.Table, plan.OutsideTable, plan.CallTable} {
		if _, err := d.db.ExecContext(t.Context(), table); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// history is all that was done, and nothing of what was answered.
func (d *database) history(t *testing.T) *history {
	t.Helper()
	h := &history{given: map[string][]answer{}, effects: map[string][]effect{}, calls: map[string][]call{}}
	var path string
	var e effect
	d.rows(t, `SELECT path, id, answer, process, token FROM effect UNION ALL SELECT path, id, answer, '', 0 FROM outside`,
		func() { h.effects[path] = append(h.effects[path], e) }, &path, &e.id, &e.answer, &e.process, &e.token)
	var c call
	d.rows(t, `SELECT path, event, child, step, id, token FROM outside_call`,
		func() { h.calls[path] = append(h.calls[path], c) }, &path, &c.event, &c.child, &c.step, &c.id, &c.token)
	return h
}

// of is what was done for one path alone, and the answers to it.
func (d *database) of(t *testing.T, path string, given ...answer) *history {
	t.Helper()
	all := d.history(t)
	return &history{
		given:   map[string][]answer{path: given},
		effects: map[string][]effect{path: all.effects[path]},
		calls:   map[string][]call{path: all.calls[path]},
	}
}

// rows calls f with each row of a query, whose columns dest receives.
func (d *database) rows(t *testing.T, query string, f func(), dest ...any) {
	t.Helper()
	rows, err := d.db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		f()
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}
