package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/ackledger/ackledger/ledger"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// The version table of goose, inside the ledger's own schema.
const versionTable = "migration"

// migrateIdle has the server end a migration whose process is frozen between two statements, in a transaction or not: what it
// has locked (whole tables) stops every worker, and its turn every other migration.
const migrateIdle = 10 * time.Second

// Migrate makes the schema (an empty name means "ackledger"), or brings it to this program's version. Any number of
// processes may call it at once: a session advisory lock lets one work, and the others wait, for up to five minutes and
// until ctx ends; their error then names the session that works. One whose process is frozen is ended by the server after
// ten seconds. Migrate connects by itself, as conn says, with the right to create schemas (or to create tables in a schema
// that is there).
// Session locks do not hold behind a pooler in transaction mode: name the server itself here.
//
// Before all else it finds out what engine it talks to, and whether a pooler gives its session to others. What has not passed
// the ledger's suite is refused by name ([EngineError]), and nothing is made there. accept names what is to be taken all the
// same, for who has run the suite there himself.
//
// A schema says which is the oldest worker it still serves, so migrate first and deploy then: workers of the version
// before go on. (Not at versions 4 and 5: there older workers finish what they have, and claim nothing more.) A newer
// schema that does not serve this version is an error for which [ledger.Unusable] is true.
//
// The functions that sweep have the rights of the schema's owner, so nobody else may create functions or operators in it
// (PostgreSQL's documentation, "Writing SECURITY DEFINER Functions Safely"). A schema in which every role may, as in
// "public" of databases made before PostgreSQL 15, is refused; give CREATE on it to no role that you do not trust so far.
func Migrate(ctx context.Context, conn *pgx.ConnConfig, schema string, accept ...Engine) error {
	schema, err := schemaOn(conn, schema)
	if err != nil {
		return err
	}
	if err := checkAccept(accept); err != nil {
		return err
	}
	what := fmt.Sprintf("migrate schema %q", schema)
	if err := admitSession(ctx, conn, accept); err != nil {
		return named(what, usable(err))
	}
	db := openSchema(conn, schema)
	err = migrate(ctx, db, schema, migrateWait)
	return named(what, usable(errors.Join(err, db.Close())))
}

// schemaOn is the name of a schema that a config leads to.
func schemaOn(conn *pgx.ConnConfig, schema string) (string, error) {
	if conn == nil {
		return "", &ledger.InvalidError{Field: "conn", Bound: "a connection config", Value: "nil"}
	}
	schema = cmp.Or(schema, DefaultSchema)
	return schema, checkSchema(schema)
}

// openSchema opens connections whose tables are those of the schema.
func openSchema(conn *pgx.ConnConfig, schema string) *sql.DB {
	quoted := pgx.Identifier{schema}.Sanitize()
	return stdlib.OpenDB(*conn.Copy(), stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, fmt.Sprintf("SET search_path = %s; SET idle_in_transaction_session_timeout = %[2]d; "+
			"SET idle_session_timeout = %[2]d", quoted, migrateIdle.Milliseconds()), pgx.QueryExecModeSimpleProtocol)
		return err
	}))
}

func migrate(ctx context.Context, db *sql.DB, schema string, wait time.Duration) error {
	if err := createSchema(ctx, db, schema, wait); err != nil {
		return err
	}
	if err := checkPrivate(ctx, db, schema); err != nil {
		return err
	}
	provider, err := newProvider(db, schema, wait)
	if err != nil {
		return err
	}
	if _, err = provider.Up(ctx); err != nil {
		return err
	}
	var version, oldestWorker int
	if err := db.QueryRowContext(ctx, "SELECT schema_version, oldest_worker FROM meta").Scan(&version, &oldestWorker); err != nil {
		return err
	}
	return program.check(schema, version, oldestWorker)
}

// checkPrivate refuses a schema that this role may not use, which PostgreSQL would leave out of the search_path without a
// word, and one in which every role may put functions in the place of those that the sweep calls.
func checkPrivate(ctx context.Context, db *sql.DB, schema string) error {
	var mine, shared bool
	const find = "SELECT pg_catalog.has_schema_privilege($1, 'USAGE'), pg_catalog.has_schema_privilege('public', $1, 'CREATE')"
	if err := db.QueryRowContext(ctx, find, schema).Scan(&mine, &shared); err != nil {
		return err
	}
	if !mine {
		return errors.New("this role has no USAGE of it: migrate as its owner")
	}
	if !shared {
		return nil
	}
	quoted := pgx.Identifier{schema}.Sanitize()
	return fmt.Errorf("every role may create functions in it, which would run with its owner's rights: "+
		"use a schema of the ledger's own, or REVOKE CREATE ON SCHEMA %s FROM PUBLIC", quoted)
}

// newProvider makes what applies the migrations, one process at a time.
func newProvider(db *sql.DB, schema string, wait time.Duration) (*goose.Provider, error) {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, err // never: the name is a constant
	}
	return goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithTableName(versionTable), goose.WithSessionLocker(turn{lockID(schema), wait}),
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
}

// createSchema makes the schema if it is not there. Two at once would both try, so they take turns.
func createSchema(ctx context.Context, db *sql.DB, schema string, wait time.Duration) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			if end := tx.Rollback(); !errors.Is(end, sql.ErrTxDone) { // as it is when ctx has ended
				err = errors.Join(err, end)
			}
		}
	}()
	if err = (turn{lockID(schema) + 1, wait}).take(ctx, tx, sqlTryMake); err != nil {
		return err
	}
	var there bool
	const find = "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1)"
	if err = tx.QueryRowContext(ctx, find, schema).Scan(&there); err != nil {
		return err
	}
	if !there {
		if _, err = tx.ExecContext(ctx, "CREATE SCHEMA "+pgx.Identifier{schema}.Sanitize()); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// lockID is the advisory lock of one schema's migrations.
func lockID(schema string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("ackledger migrate " + schema))
	return int64(h.Sum64() >> 2)
}
