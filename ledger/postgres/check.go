package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/ledger"
)

// Check asks whether this program may work with the schema as it is: its version, and whether all tables are there. It is
// what Join checks for a worker, for tools that never join and so must ask before they change anything. Its errors are
// those of Join.
func (l *Ledger) Check(ctx context.Context) error {
	return onConn(ctx, l.beats, l.checkOn)
}

func (l *Ledger) checkOn(ctx context.Context, conn *pgxpool.Conn) error {
	var version, oldest int
	var missing string
	if err := conn.QueryRow(ctx, l.sql(sqlMeta)).Scan(&version, &oldest, &missing); err != nil {
		return fmt.Errorf("postgres: read the schema's version: %w", noRowIsUnusable(err))
	}
	if err := l.is.check(l.cfg.Schema, version, oldest); err != nil || missing == "" {
		return err
	}
	return ledger.MarkUnusable(fmt.Errorf("postgres: schema %q has version %d but lacks the tables %s: restore them",
		l.cfg.Schema, version, missing))
}
