package chaos_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // database/sql for the oracle
	_ "modernc.org/sqlite"             // the same

	"github.com/ackledger/ackledger/ledger/postgres"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// database is a store as the oracle sees it: beside all faults.
type database struct {
	kind   string // "postgres" or "sqlite"
	where  string // URL or path
	prefix string // of the ledger's tables
	db     *sql.DB
}

// No unique constraint: a message that is done twice has two rows.
const effectTable = `CREATE TABLE effect (seq %s, message text NOT NULL, body text NOT NULL, grp text NOT NULL,
	part integer NOT NULL, off bigint NOT NULL, process text NOT NULL, token bigint NOT NULL)`

// callTable has a row of each outside call, and one of each return of its result to a handler.
const callTable = `CREATE TABLE outside_call (seq %s, event text NOT NULL, child text NOT NULL, body text NOT NULL, step text NOT NULL,
	id text NOT NULL, process text NOT NULL, token bigint NOT NULL)`

func newPostgres(t *testing.T, url string) *database {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(t.Context(), config, postgres.DefaultSchema); err != nil {
		t.Fatal(err)
	}
	return (&database{kind: "postgres", where: url, prefix: "ackledger."}).open(t, "pgx", url, "bigserial")
}

func newSQLite(t *testing.T, dir string) *database {
	t.Helper()
	path := filepath.Join(dir, "ledger.db")
	l, err := sqlite.Open(t.Context(), path, nil) // makes its tables
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	d := &database{kind: "sqlite", where: path, prefix: "ackledger_"}
	return d.open(t, "sqlite", "file:"+path+"?_pragma=busy_timeout(10000)", "integer PRIMARY KEY AUTOINCREMENT")
}

func (d *database) open(t *testing.T, driver, dsn, seq string) *database {
	t.Helper()
	var err error
	if d.db, err = sql.Open(driver, dsn); err != nil {
		t.Fatal(err)
	}
	d.db.SetMaxOpenConns(2)
	t.Cleanup(func() { _ = d.db.Close() }) // nothing is written through it
	for _, statement := range []string{format(effectTable, seq), `CREATE INDEX effect_place ON effect (part, off)`, format(callTable, seq)} {
		if _, err := d.db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// number runs a query for one number.
func (d *database) number(ctx context.Context, query string) (n int64, err error) {
	err = d.db.QueryRowContext(ctx, query).Scan(&n)
	return n, err
}

// rows calls f with each row of a query, whose columns dest receives.
func (d *database) rows(ctx context.Context, query string, f func(), dest ...any) (err error) {
	rows, err := d.db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		f()
	}
	return rows.Err()
}

// missingQuery is the first offset of a partition below another one that is neither terminal nor parked.
const missingQuery = `SELECT coalesce(min(o), -1) FROM generate_series(0::bigint, %[2]d - 1) o
	WHERE NOT EXISTS (SELECT FROM effect e WHERE e.part = %[1]d AND e.off = o) AND NOT EXISTS (SELECT FROM (SELECT id FROM ackledger.archive UNION ALL SELECT id FROM ackledger.parked) a WHERE
		substring(convert_from(id, 'UTF8') FROM '([0-9]+)-[0-9]+$')::bigint = %[1]d AND
		substring(convert_from(id, 'UTF8') FROM '([0-9]+)$')::bigint = o)`

// terminalQuery counts what of a partition is terminal or parked below an offset: effects, and what is archived or parked. A plain effect is there
// before its message is terminal: pendingQuery sees to those.
const terminalQuery = `SELECT count(*) FROM (
	SELECT off FROM effect WHERE part = %[1]d AND off < %[2]d
	UNION SELECT o FROM (SELECT substring(convert_from(id, 'UTF8') FROM '([0-9]+)$')::bigint AS o
			FROM (SELECT id FROM ackledger.archive UNION ALL SELECT id FROM ackledger.parked) whole
		WHERE substring(convert_from(id, 'UTF8') FROM '([0-9]+)-[0-9]+$')::bigint = %[1]d) a WHERE o < %[2]d) both_of`

// pendingQuery is the first offset of a partition below another one that has a pending row and is not parked; -1: there is none.
const pendingQuery = `SELECT coalesce(min(o), -1) FROM (SELECT substring(convert_from(id, 'UTF8') FROM '([0-9]+)$')::bigint AS o
	FROM ackledger.message m WHERE state = 1 AND NOT EXISTS (SELECT FROM ackledger.parked p WHERE p.key = m.key) AND substring(convert_from(id, 'UTF8') FROM '([0-9]+)-[0-9]+$')::bigint = %[1]d) m
	WHERE o < %[2]d`
