package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ackledger/ackledger/internal/maintenance"
	"github.com/ackledger/ackledger/ledger"
)

// Bounds of one transaction of the sweep.
const (
	sweepAim     = 250 * time.Millisecond // a transaction that takes longer makes the next ones smaller
	sweepTimeout = 5 * time.Second        // the database ends one that takes this long, and a smaller one is tried
	maxPages     = 4096                   // 32 MiB
	rowsPerPage  = 50                     // what is assumed of pages: those behind empty ones may be full
)

// maintainLease is how long the others wait for a process that died while it swept. Each transaction extends it.
const maintainLease = 30 * time.Second

// errTurnLost says that another process took the turn: this one did not get on for a whole lease.
var errTurnLost = errors.New("the turn to sweep was lost to another process")

// sqlSweepBegin makes a transaction of the sweep cheap and short. What a crash of the server forgets of it is only
// removed once more.
const sqlSweepBegin = `SELECT set_config('synchronous_commit', 'off', true), set_config('statement_timeout', $1::text, true),
set_config('lock_timeout', $1::text, true)`

// pass is one round over every page. It begins where the pass before stopped, and comes around, so that passes that are
// cut short reach every page all the same, and one that comes around has seen every page.
type pass struct {
	ledger   *Ledger
	cfg      ledger.MaintainConfig
	pool     *pgxpool.Pool // of one connection
	me       int64
	from     int64 // the page where the round begins
	archived int64 // where the archive's part of the pass before stopped; -1: it did not
	gentle   bool  // rest between transactions that removed little

	report ledger.SweepReport
	tally  maintenance.Tally
	named  map[int64]bool   // owners that pending messages name, or ranges that may become rows
	ranged map[int32]int64  // messages of each scope that segments and ranges have, less those that have rows, too
	names  map[int32]string // of the scopes
	pace   *maintenance.Pace
}

func (p *pass) exec(ctx context.Context, sql string, args ...any) error {
	return p.query(ctx, sql, args, func(pgx.Rows) error { return nil })
}

// removed carries out a statement that says how much it removed; null without the turn.
func (p *pass) removed(ctx context.Context, sql string, args ...any) (int64, error) {
	var n *int64
	err := p.query(ctx, sql, args, func(rows pgx.Rows) error { return rows.Scan(&n) })
	switch {
	case err != nil:
		return 0, err
	case n == nil:
		return 0, errTurnLost
	}
	return *n, nil
}

// trim has a function of the schema remove and count rows, as many as it removes in one transaction, until there is none. A schema that is
// older than this program has no such rows.
func (p *pass) trim(ctx context.Context, count *int64, sql string, args ...any) error {
	for {
		removed, err := p.removed(ctx, sql, args...)
		*count += removed
		if code(err) == codeNoFunction {
			return nil
		}
		if err != nil || removed == 0 {
			return err
		}
	}
}

// query carries out one statement in a short transaction, which a crash of the server may forget. All of it goes in one
// round trip: a process that is frozen (SIGSTOP, a paused machine) or cut off leaves no transaction open, whose locks would
// keep claims of whole logs, and everybody else's sweep, waiting until the server finds out.
func (p *pass) query(ctx context.Context, sql string, args []any, scan func(pgx.Rows) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*sweepTimeout)
	defer cancel()
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return notSent(err)
	}
	defer conn.Release() // closes it, if the transaction failed
	b := &pgx.Batch{}
	b.Queue(sqlReadCommitted)
	b.Queue(sqlSweepBegin, milliseconds(sweepTimeout))
	b.Queue(sqlTune)
	b.Queue(p.ledger.sql(sql), args...).Query(each(scan))
	b.Queue("commit")
	return usable(conn.SendBatch(ctx, b).Close())
}
