package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/ackledger/ackledger/ledger"
)

// Check asks whether this program may work with what is there: whether the ledger's suite has been passed by the engine
// ([EngineError]), then the schema's version, and whether all tables are there. It is what Join checks for a worker, for tools that never join and so must ask before they change anything. Its errors are
// those of Join.
func (l *Ledger) Check(ctx context.Context) error {
	return onConn(ctx, l.beats, l.checkOn)
}

func (l *Ledger) checkOn(ctx context.Context, conn *pgxpool.Conn) error {
	s, err := admit(ctx, conn.Conn(), l.cfg.Accept)
	if err != nil {
		return fmt.Errorf("postgres: %w", usable(err))
	}
	l.remarked.Do(func() { l.remark(s, conn.Conn().Config().DefaultQueryExecMode) })
	var version, oldest int
	var missing string
	if err := conn.QueryRow(ctx, l.sql(sqlMeta)).Scan(&version, &oldest, &missing); err != nil {
		return fmt.Errorf("postgres: read the schema's version: %w", noRowIsUnusable(err))
	}
	if err := l.is.check(l.cfg.Schema, version, oldest); err != nil || missing == "" {
		l.parks.Store(err == nil && min(version, l.is.worker) >= parkVersion)
		return err
	}
	return ledger.MarkUnusable(fmt.Errorf("postgres: schema %q has version %d but lacks the tables %s: restore them",
		l.cfg.Schema, version, missing))
}

// remark tells operators, once, what is let through and may go wrong.
func (l *Ledger) remark(s Server, mode pgx.QueryExecMode) {
	if s.Refused != nil {
		l.log.Warn("the ledger is kept where it would be refused, had the configuration not accepted it",
			zap.String("engine", string(s.Refused.Engine)), zap.String("version", s.Version), zap.String("reason", s.Refused.Reason))
	}
	if s.Pooled && mode != pgx.QueryExecModeExec && mode != pgx.QueryExecModeSimpleProtocol {
		l.log.Warn("the database is behind a pooler: one in transaction mode that keeps no prepared statements needs default_query_exec_mode=exec",
			zap.Stringer("mode", mode))
	}
}
