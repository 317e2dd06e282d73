package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/ackledger/ackledger/internal/fencedsql"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// Config changes a ledger. The zero value, or nil, is the default.
type Config struct {
	// Limits bounds what is stored of one message. For larger messages than the default's, or smaller disks. A zero field
	// is that of [ledger.DefaultLimits]; Archive is at most 512 MiB (SQLite's largest row is 1 GB).
	Limits ledger.Limits
	// TxLimit is how long one InTx may last, from BEGIN to the end of the handler's function; after it the transaction
	// is rolled back. While one lasts nobody else writes to the file: for handlers that need to hold up the others for
	// longer, or must not for so long. Default 1 min.
	TxLimit time.Duration
	// NewOwners accepts a missing owners file beside a ledger that has been in use. For whoever restored the ledger
	// without it, once, while no other worker runs: what was in the hands of the old owners is free at once.
	NewOwners bool
	// Existing refuses a file in which there is no ledger yet, and changes nothing of it. Default false: Open makes one. For tools that look.
	Existing bool
	// Logger gets what no caller can be told. For everybody who runs this in production. Default: none.
	Logger *zap.Logger

	hooks hooks
}

// hooks are where tests break things.
type hooks struct {
	pragma []string                                      // of every connection to the main file
	wrapTx func(sqldriver.Connector) sqldriver.Connector // the connector of InTx
	settle time.Duration                                 // in place of settleBound
}

// The bounds of Config.
const (
	maxArchive     = 512 << 20
	defaultTxLimit = time.Minute
	// settleBound is how long the fence and the COMMIT of an InTx may take, and the reading of an unknown one.
	settleBound = 10 * time.Second
	maxTxLimit  = 24 * time.Hour
	openTimeout = time.Minute // of Open without a deadline
)

// withDefaults returns a checked copy.
func (c *Config) withDefaults() (Config, error) {
	var out Config
	if c != nil {
		out = *c
	}
	limits := []struct {
		name           string
		value          *int
		standard, high int
	}{
		{"Config.Limits.Result", &out.Limits.Result, ledger.DefaultLimits.Result, maxArchive},
		{"Config.Limits.Archive", &out.Limits.Archive, ledger.DefaultLimits.Archive, maxArchive},
		{"Config.Limits.Errors", &out.Limits.Errors, ledger.DefaultLimits.Errors, maxArchive},
	}
	for _, l := range limits {
		if *l.value < 0 || *l.value > l.high {
			return out, &ledger.InvalidError{Field: l.name, Bound: fmt.Sprintf("0 (default) to %d bytes", l.high),
				Value: fmt.Sprintf("%d bytes", *l.value)}
		}
		if *l.value == 0 {
			*l.value = l.standard
		}
	}
	if out.TxLimit < 0 || out.TxLimit > maxTxLimit {
		return out, &ledger.InvalidError{Field: "Config.TxLimit", Bound: fmt.Sprintf("0 (default) to %s", maxTxLimit),
			Value: out.TxLimit.String()}
	}
	out.TxLimit = cmp.Or(out.TxLimit, defaultTxLimit)
	out.Logger = cmp.Or(out.Logger, zap.NewNop())
	out.hooks.settle = cmp.Or(out.hooks.settle, settleBound)
	return out, nil
}

// Ledger implements [ledger.Ledger] on one SQLite file, and all that goes with it. It is safe for concurrent use, also by other
// processes of the same machine that open the same file.
type Ledger struct {
	*driver.Ledger
	store *store
}

// Open opens the ledger in the file at path, and makes it if it is not there; its folder must exist. Beside it lie the
// files that SQLite itself makes (-wal, -shm) and the owners file (path + "-owners", with its own -wal and -shm): they
// belong together and are copied, moved or deleted together, while nothing has them open. The disk must be local, since
// SQLite's WAL needs shared memory (https://www.sqlite.org/wal.html).
//
// The application's own tables may live in the same file; that is what InTx needs. All of ours begin with `ackledger_`.
//
// Errors: an [*ledger.InvalidError] for a path or setting out of bounds; [ErrNoLedger] for what Config.Existing refuses; one for which
// [ledger.Unusable] is true if the folder is missing, the files cannot be written, are no SQLite database or have a schema that does not serve this
// program. Any other may heal. A ctx without a deadline gets one of a minute: making the tables waits for the disk some dozens of times.
func Open(ctx context.Context, path string, c *Config) (*Ledger, error) {
	cfg, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	if path == "" || path == ":memory:" {
		return nil, &ledger.InvalidError{Field: "path", Bound: "a file's path (package memory is for tests without one)",
			Value: fmt.Sprintf("%q", path)}
	}
	if strings.Contains(path, "://") || strings.Contains(path, "password=") { // it would be named in errors, and made as a file
		return nil, &ledger.InvalidError{Field: "path", Bound: "a file's path", Value: "the address of a server"}
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, ledger.MarkUnusable(fmt.Errorf("ledger/sqlite: %w", err))
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, openTimeout)
		defer cancel()
	}
	if cfg.Existing {
		if err := mustBeThere(ctx, path); err != nil {
			return nil, err
		}
	}
	if err := prepareFile(ctx, path, "ledger"); err != nil {
		return nil, err
	}
	if err := prepareFile(ctx, ownersPath(path), "owners"); err != nil {
		return nil, err
	}
	s := &store{path: path, cfg: cfg, stmts: statements{}, fence: statements{}}
	s.host, _ = os.Hostname() // for people only
	l := &Ledger{store: s, Ledger: driver.New(s, driver.Config{Name: "ledger/sqlite", Limits: cfg.Limits, Parks: true,
		Warn: func(what string, err error) { cfg.Logger.Warn(what, zap.Error(err)) }})}
	err = s.connect()
	if err == nil {
		err = pairFiles(ctx, s.main, s.owners, path, cfg.NewOwners)
	}
	if err == nil {
		err = openError(path, cmp.Or(s.stmts.prepare(ctx, s.main.db, callTexts), s.fence.prepare(ctx, s.tx, fenceTexts)))
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func ownersPath(path string) string { return path + "-owners" }

// connect makes the pools. InTx has a connection of its own, which ledger calls do not take; the process' turn to write
// is shared, since the file has one writer anyway.
func (s *store) connect() error {
	main, mainErr := newConnector(s.path, s.cfg.hooks.pragma...)
	tx, txErr := newConnector(s.path, s.cfg.hooks.pragma...)
	read, readErr := newConnector(s.path, "query_only = ON", "busy_timeout = 5000") // readers wait for nothing but a recovery
	owners, ownersErr := newConnector(ownersPath(s.path))
	if err := cmp.Or(mainErr, txErr, readErr, ownersErr); err != nil {
		return err
	}
	s.main = &writer{db: openPool(main.attaching(ownersPath(s.path)), 1), turn: newTurn()}
	s.owners = &writer{db: openPool(owners, 1), turn: newTurn()}
	s.read = openPool(read, 2)
	var inner sqldriver.Connector = tx
	if wrap := s.cfg.hooks.wrapTx; wrap != nil {
		inner = wrap(tx)
	}
	s.tx = openPool(fencedsql.Connector(inner), 1)
	return nil
}

// Close closes the files; owners that did not leave are declared dead by their peers later. Calls in flight may fail.
func (l *Ledger) Close() error {
	errs := []error{l.store.stmts.close(), l.store.fence.close()}
	for _, db := range []*sql.DB{l.store.tx, l.store.read} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	for _, w := range []*writer{l.store.main, l.store.owners} {
		if w != nil {
			errs = append(errs, w.db.Close())
		}
	}
	return errors.Join(errs...)
}
