package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"time"
)

// Break sets where tests break things: pragmas of the connections to the main file, the connector of InTx, and the
// bound of fence, COMMIT and the reading of its result. Zero values break nothing.
func (c *Config) Break(pragma []string, wrapTx func(driver.Connector) driver.Connector, settle time.Duration) *Config {
	c.hooks = hooks{pragma: pragma, wrapTx: wrapTx, settle: settle}
	return c
}

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

// PlayFirst makes the ledger a program of the first schema, which filed no positions.
func (l *Ledger) PlayFirst(ctx context.Context) error {
	stmt, err := l.main.db.PrepareContext(ctx, `INSERT INTO ackledger_archive (key, delivery, scope, id, fingerprint, token,
		generation, kind, errors, source, grp, attempts, sent_at, published, at, expiry, headers, body)
		SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18 WHERE ?19 IS NULL
		ON CONFLICT (key, delivery) DO NOTHING`)
	if err != nil {
		return err
	}
	err = l.stmts.archive.Close()
	l.stmts.archive = stmt
	return err
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
