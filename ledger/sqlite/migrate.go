package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/ackledger/ackledger/ledger"
)

// schemaVersion is the schema that this program knows. A newer one says for itself which programs it still serves.
const schemaVersion = 12

//go:embed migrations
var migrations embed.FS

// prepareFile makes the file at path a ledger's: WAL, and the tables that the migrations in dir make. Several processes
// may do so at once. Nothing is synced between migrations: the next commit of a claim syncs all that lies before it in the log.
func prepareFile(ctx context.Context, path, dir string) error {
	makePrivate(path)
	c, err := newConnector(path, "synchronous = NORMAL") // a migration that a power failure undid is made again
	if err != nil {
		return err
	}
	db := openPool(c, 1)
	defer func() { _ = db.Close() }() // its connection wrote nothing that is not committed
	if err := setWAL(ctx, db); err != nil {
		return openError(path, err)
	}
	return openError(path, migrate(ctx, db, path, dir))
}

// ErrNoLedger says that there is no ledger in a file that [Config].Existing wants one in. [ledger.Unusable] is true for it.
var ErrNoLedger = errors.New("there is no ledger in it")

// mustBeThere says what is wrong with a file that ought to be a ledger. It only reads.
func mustBeThere(ctx context.Context, path string) error {
	if _, err := os.Stat(path); err != nil { // SQLite would make it
		return openError(path, ledger.MarkUnusable(fmt.Errorf("%w: %w", ErrNoLedger, err)))
	}
	c, err := newConnector(path, "query_only = ON")
	if err != nil {
		return err
	}
	db := openPool(c, 1)
	defer func() { _ = db.Close() }() // it wrote nothing
	schema, err := checkSchema(ctx, db, path)
	if err == nil && schema == 0 {
		err = ledger.MarkUnusable(ErrNoLedger)
	}
	return openError(path, err)
}

// maxLinks is how many links in a row are followed; systems follow no more either.
const maxLinks = 40

// makePrivate makes a file that only its owner may read, if there is none: whole messages will be in it. SQLite gives the files
// that it makes beside it the same mode (https://www.sqlite.org/wal.html, "-wal" and "-shm"). What is there keeps the mode that
// somebody gave it. A link is followed to where the file is to be. What cannot be made, SQLite says by itself.
func makePrivate(path string) {
	for range maxLinks {
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
		_ = f.Close() // nothing was written
	}
}

// setWAL changes the journal mode, which is kept in the file. SQLite does not wait for others in this statement.
func setWAL(ctx context.Context, db *sql.DB) error {
	for {
		var mode string
		err := db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
		switch {
		case err == nil && mode == "wal":
			return nil
		case err == nil:
			return ledger.MarkUnusable(fmt.Errorf("the journal mode must be wal, is %s: the file must be on a local disk", mode))
		case !isBusy(err):
			return err
		}
		if err := pause(ctx); err != nil {
			return err // the time is up
		}
	}
}

// migrate brings the tables up to date. goose has no lock for SQLite; each migration is one transaction, so that of two
// processes that migrate at once one succeeds, and the other finds on its next look that nothing is left to do. A migration
// that is late, and could be done again, must not set the schema's number back.
func migrate(ctx context.Context, db *sql.DB, path, dir string) error {
	provider, err := newProvider(db, dir)
	if err != nil {
		return err
	}
	for {
		schema, err := checkSchema(ctx, db, path)
		if err == nil && schema >= schemaVersion {
			return nil
		}
		if err == nil {
			_, err = provider.Up(ctx)
		}
		if err == nil || ledger.Unusable(err) {
			return err
		}
		after, lookErr := checkSchema(ctx, db, path)
		if !isBusy(err) && !isBusy(lookErr) && (lookErr != nil || after == schema) {
			return err // nobody else was at it
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// newProvider makes what applies the migrations in dir.
func newProvider(db *sql.DB, dir string) (*goose.Provider, error) {
	tables, err := fs.Sub(migrations, "migrations/"+dir)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectSQLite3, db, tables,
		goose.WithTableName("ackledger_migration"), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
}

// checkSchema returns the schema of the file, 0 if there is none, and refuses one that does not serve this program.
func checkSchema(ctx context.Context, db *sql.DB, path string) (int, error) {
	var known int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master WHERE name = 'ackledger_meta'`).Scan(&known); err != nil {
		return 0, err
	}
	if known == 0 {
		return 0, nil
	}
	schema, err := metaNumber(ctx, db, "schema")
	if err != nil {
		return 0, err
	}
	oldest, err := metaNumber(ctx, db, "oldest_worker")
	if err != nil {
		return 0, err
	}
	if oldest > schemaVersion {
		return 0, ledger.MarkUnusable(fmt.Errorf("%s has schema %d, which serves programs that know schema %d or later; "+
			"this one knows %d: update it", path, schema, oldest, schemaVersion))
	}
	return schema, nil
}

type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func metaNumber(ctx context.Context, q queryer, key string) (int, error) {
	text, err := metaText(ctx, q, key)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, ledger.MarkUnusable(fmt.Errorf("ackledger_meta: %s must be a number, is %q", key, text))
	}
	return n, nil
}

func metaText(ctx context.Context, q queryer, key string) (value string, err error) {
	err = q.QueryRowContext(ctx, "SELECT value FROM ackledger_meta WHERE key = ?", key).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return value, err
}

// pairFiles makes sure that the two files belong together: rows that name owners of another file would be taken for
// this one's. The owners file is given its id first, so a ledger with an id has had an owners file with the same.
func pairFiles(ctx context.Context, main, owners *writer, path string, renew bool) error {
	want, err := metaText(ctx, main.db, "ledger")
	if err != nil {
		return openError(path, err)
	}
	have, err := nameOwners(ctx, owners, want, renew || want == "")
	if err != nil {
		return openError(path, err)
	}
	if want == "" {
		want, err = nameLedger(ctx, main, have)
	}
	if err == nil && isBehind(have, want) {
		_, err = endOwners(ctx, owners, want)
		have = want
	}
	switch {
	case err != nil:
		return openError(path, err)
	case have == "":
		return ledger.MarkUnusable(fmt.Errorf("ledger/sqlite: %s is missing or empty, but %s has been in use with one: restore it, "+
			"or stop every worker of this ledger and run `ackledger recover --new-owners --yes`, or open it once with Config.NewOwners", ownersPath(path), path))
	case have != want:
		return ledger.MarkUnusable(fmt.Errorf("ledger/sqlite: %s belongs to ledger %s, %s is ledger %s: restore the file that belongs to it",
			ownersPath(path), have, path, want))
	}
	return nil
}

// nameOwners returns the id in the owners file. A file without one gets id (or a new one, if that is empty) if it may:
// then its owner ids start at the time of day, above all that an earlier file can have given.
func nameOwners(ctx context.Context, owners *writer, id string, may bool) (have string, err error) {
	err = owners.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if have, err = metaText(ctx, tx, "ledger"); err != nil || have != "" || !may {
			return err
		}
		if have = id; have == "" {
			have = rand.Text()
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO ackledger_meta (key, value) VALUES ('ledger', ?)", have); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO sqlite_sequence (name, seq) VALUES ('ackledger_owner', ?)", time.Now().UnixMicro())
		return err
	})
	return have, err
}

// nameLedger gives the main file the id of its owners file, unless it has got one meanwhile, and returns what it has.
func nameLedger(ctx context.Context, main *writer, id string) (have string, err error) {
	err = main.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO ackledger_meta (key, value) VALUES ('ledger', ?) ON CONFLICT DO NOTHING", id)
		if err != nil {
			return err
		}
		have, err = metaText(ctx, tx, "ledger")
		return err
	})
	return have, err
}

// pause waits a moment for other processes.
func pause(ctx context.Context) error {
	timer := time.NewTimer(busyTimeout)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return gaveUp(ctx)
	case <-timer.C:
		return nil
	}
}
