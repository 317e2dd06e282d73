package postgres

import (
	"context"
	"fmt"

	"github.com/ackledger/ackledger/ledger"
)

// Check asks whether this program may work with the schema as it is: its version, and whether all tables are there. It is
// what Join checks for a worker, for tools that never join and so must ask before they change anything. Its errors are
// those of Join.
func (l *Ledger) Check(ctx context.Context) error {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	var version, oldest int
	var missing string
	conn, err := l.beats.Acquire(ctx)
	if err != nil {
		return notSent(err)
	}
	defer conn.Release()
	if err := conn.QueryRow(ctx, l.sql.meta).Scan(&version, &oldest, &missing); err != nil {
		return fmt.Errorf("postgres: read the schema's version: %w", noRowIsUnusable(err))
	}
	if missing != "" {
		return ledger.MarkUnusable(fmt.Errorf("postgres: schema %q has version %d but lacks the tables %s: restore them",
			l.cfg.Schema, version, missing))
	}
	return l.is.check(l.cfg.Schema, version, oldest)
}
