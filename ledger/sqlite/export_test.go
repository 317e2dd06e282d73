package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"strings"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// Break sets where tests break things: pragmas of the connections to the main file, the connector of InTx, and the
// bound of fence, COMMIT and the reading of its result. Zero values break nothing.
func (c *Config) Break(pragma []string, wrapTx func(sqldriver.Connector) sqldriver.Connector, settle time.Duration) *Config {
	c.hooks = hooks{pragma: pragma, wrapTx: wrapTx, settle: settle}
	return c
}

// ConnectTo opens and closes one connection of those that claim, to files that are there.
func ConnectTo(ctx context.Context, path string) error {
	c, err := newConnector(path)
	if err != nil {
		return err
	}
	conn, err := c.attaching(ownersPath(path)).Connect(ctx)
	if err != nil {
		return err
	}
	return conn.Close()
}

// Wall is the clock of the pulse.
func Wall() time.Time { return (&store{}).Now() }

// Reading says how many reads are under way.
func (l *Ledger) Reading() int { return l.store.read.Stats().InUse }

// SchemaVersion is the schema that this program knows.
const SchemaVersion = schemaVersion

// MigrateTo takes the files at path to a schema, forward or back: in an earlier one data is as a program of that time left it.
func MigrateTo(ctx context.Context, path string, version int64) error {
	for file, dir := range map[string]string{path: "ledger", ownersPath(path): "owners"} {
		if err := migrateTo(ctx, file, dir, version); err != nil {
			return err
		}
	}
	return nil
}

// PlayFirst makes the ledger a program of the first schema, which filed no positions and knew nothing of ranges.
func (l *Ledger) PlayFirst(ctx context.Context) error {
	for now, first := range map[string]string{
		sqlFile: `INSERT INTO ackledger_archive (key, delivery, scope, id, fingerprint, token,
			generation, kind, errors, source, grp, attempts, sent_at, published, at, expiry, headers, body)
			SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18 WHERE ?19 IS NULL
			ON CONFLICT (key, delivery) DO NOTHING`,
		sqlInsert: `INSERT INTO ackledger_message
			(key, scope, id, fingerprint, state, token, owner, attempts, crashes, generation, at, expiry)
			SELECT ?1, ?2, ?3, ?4, 1, ?5, ?6, 0, 0, 0, ?7, ?8 WHERE ?9 IS NULL ON CONFLICT (key) DO NOTHING`,
		sqlPut:     strings.Replace(sqlPut, ",\n\t\tcovered = ? WHERE key = ?", " WHERE ? IS NULL AND key = ?", 1),
		sqlMessage: strings.Replace(sqlMessage, "m.covered IS NOT NULL", "false", 1),
		sqlSucceed: `UPDATE ackledger_message SET state = 2, owner = NULL, due = NULL, result = ?4
			WHERE key = ?1 AND state = 1 AND owner = ?3 AND token = ?2 AND ?5 > 0`,
	} {
		fresh, err := l.store.main.db.PrepareContext(ctx, first)
		if err != nil {
			return err
		}
		if err := l.store.stmts[now].Close(); err != nil {
			return err
		}
		l.store.stmts[now] = fresh
	}
	return nil
}

// PlayNine makes the ledger a program of schema 9 or before, which knows nothing of what is parked.
func (l *Ledger) PlayNine() {
	l.Ledger = driver.New(l.store, driver.Config{Name: "ledger/sqlite", Limits: l.Limits()})
}

// JoinFirst is Join of a program of the first schema.
func (l *Ledger) JoinFirst(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o, err := driver.New(first{l.store}, driver.Config{Limits: l.Limits()}).Join(ctx, lease)
	if err != nil {
		return nil, err
	}
	return ledger.Unwrap(o), nil
}

// first is the store of such a program.
type first struct{ *store }

func (s first) Join(ctx context.Context, lease time.Duration) (id driver.OwnerID, err error) {
	err = s.owners.do(ctx, func(ctx context.Context, in *sql.Tx) error {
		return in.QueryRowContext(ctx, "INSERT INTO ackledger_owner (lease_end, fate, host, joined) VALUES (?, 1, '', 0) RETURNING id",
			time.Now().Add(lease).UnixMicro()).Scan(&id)
	})
	return id, err
}

func migrateTo(ctx context.Context, file, dir string, version int64) (err error) {
	c, err := newConnector(file)
	if err != nil {
		return err
	}
	db := openPool(c, 1)
	defer func() { err = errors.Join(err, db.Close()) }()
	provider, err := newProvider(db, dir)
	if err != nil {
		return err
	}
	now, err := provider.GetDBVersion(ctx)
	if err != nil {
		return err
	}
	if now > version {
		_, err = provider.DownTo(ctx, version)
		return err
	}
	_, err = provider.UpTo(ctx, version)
	return err
}
