package http_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // database/sql for those who count
	_ "modernc.org/sqlite"             // the same

	"github.com/ackledger/ackledger/integration/http/plan"
	"github.com/ackledger/ackledger/integration/services"
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
	for _, table := range []string{plan.Table, plan.OutsideTable} {
		if _, err := d.db.ExecContext(t.Context(), table); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// effect is one of a name's.
type effect struct {
	answer, process string
	token           int64
}

// effects are all, by name.
func (d *database) effects(t *testing.T) map[string][]effect {
	t.Helper()
	rows, err := d.db.QueryContext(t.Context(), `SELECT name, answer, process, token FROM effect
		UNION ALL SELECT name, answer, '', 0 FROM outside`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	all := map[string][]effect{}
	for rows.Next() {
		var name string
		var e effect
		if err := rows.Scan(&name, &e.answer, &e.process, &e.token); err != nil {
			t.Fatal(err)
		}
		all[name] = append(all[name], e)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
