package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Break sets where tests break things: pragmas of the connections to the main file, the connector of InTx, and the
// bound of fence, COMMIT and the reading of its result. Zero values break nothing.
func (c *Config) Break(pragma []string, wrapTx func(driver.Connector) driver.Connector, settle time.Duration) *Config {
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
var Wall = wall

// Reading says how many reads are under way.
func (l *Ledger) Reading() int { return l.read.Stats().InUse }

// SchemaVersion is the schema that this program knows.
const SchemaVersion = schemaVersion

// Downgrade takes the files at path back to an earlier schema, in which the data is as a program of that time left it.
func Downgrade(ctx context.Context, path string, version int64) error {
	for file, dir := range map[string]string{path: "ledger", ownersPath(path): "owners"} {
		if err := downgrade(ctx, file, dir, version); err != nil {
			return err
		}
	}
	return nil
}

// PlayFirst makes the ledger a program of the first schema, which filed no positions and knew nothing of ranges.
func (l *Ledger) PlayFirst(ctx context.Context) error {
	for stmt, text := range map[**sql.Stmt]string{
		&l.stmts.archive: `INSERT INTO ackledger_archive (key, delivery, scope, id, fingerprint, token,
			generation, kind, errors, source, grp, attempts, sent_at, published, at, expiry, headers, body)
			SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18 WHERE ?19 IS NULL
			ON CONFLICT (key, delivery) DO NOTHING`,
		&l.stmts.succeed: `UPDATE ackledger_message SET state = 2, owner = NULL, due = NULL, result = ?4
			WHERE key = ?1 AND state = 1 AND owner = ?3 AND token = ?2 AND ?5 > 0`,
	} {
		fresh, err := l.main.db.PrepareContext(ctx, text)
		if err != nil {
			return err
		}
		if err := (*stmt).Close(); err != nil {
			return err
		}
		*stmt = fresh
	}
	return nil
}

// JoinFirst is Join of a program of the first schema.
func (l *Ledger) JoinFirst(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o := &owner{l: l, lease: lease, pulse: ledger.NewPulse(lease, time.Now())}
	err := l.owners.do(ctx, func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, "INSERT INTO ackledger_owner (lease_end, fate, host, joined) VALUES (?, 1, '', 0)",
			time.Now().Add(lease).UnixMicro())
		if err == nil {
			o.id, err = res.LastInsertId()
		}
		return err
	})
	return o, err
}

func downgrade(ctx context.Context, file, dir string, version int64) (err error) {
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
	_, err = provider.DownTo(ctx, version)
	return err
}
