package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/ackledger/ackledger/ledger"
)

var (
	_ ledger.Maintainer = (*Ledger)(nil)
	_ ledger.Inspector  = (*Ledger)(nil)
)

const (
	// maintainLease is how long the others wait for a process that died while it swept. Each transaction extends it.
	maintainLease = 30 * time.Second
	// turnPoll is how often Sweep asks whether the process that sweeps has ended its pass.
	turnPoll = 200 * time.Millisecond
	// endLimit bounds the giving back of the turn: a worker that ends while the file is locked waits no longer.
	endLimit = 2 * time.Second
	// sweepAim is what a transaction of the sweep should take at most: nobody else writes meanwhile.
	sweepAim = 100 * time.Millisecond
)

// Maintain implements [ledger.Maintainer]. The file does not shrink: SQLite uses the space again.
func (l *Ledger) Maintain(ctx context.Context, cfg ledger.MaintainConfig) error {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return err
	}
	failing := false
	return ledger.RunMaintain(ctx, cfg, func(ctx context.Context) (time.Duration, error) {
		report, swept, wait, err := l.takeTurn(ctx, cfg, false)
		if err != nil && ctx.Err() == nil && !failing {
			l.cfg.Logger.Warn("the sweep failed; it is tried again", zap.Error(err))
		}
		if failing = err != nil; swept {
			wait = cfg.Pause(&report)
		}
		return wait, err
	})
}

// Sweep implements [ledger.Maintainer].
func (l *Ledger) Sweep(ctx context.Context, cfg ledger.MaintainConfig) (ledger.SweepReport, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return ledger.SweepReport{}, err
	}
	for {
		report, swept, _, err := l.takeTurn(ctx, cfg, true)
		if err != nil || swept {
			return report, err
		}
		select {
		case <-time.After(turnPoll):
		case <-ctx.Done():
			return report, fmt.Errorf("ledger/sqlite: sweep: another process sweeps: %w", ctx.Err())
		}
	}
}

// takeTurn makes a whole pass, if nobody else is at it and (unless now is set) one is due; else it returns when to look
// again.
func (l *Ledger) takeTurn(ctx context.Context, cfg ledger.MaintainConfig, now bool) (report ledger.SweepReport, swept bool, wait time.Duration, err error) {
	p := &pass{l: l, cfg: cfg, me: rand.Text(), gentle: !now, named: make(map[int64]bool), names: make(map[int64]string),
		pace: ledger.NewSweepPace(cfg.Batch, sweepAim)}
	err = l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		at := time.Now()
		var leaseEnd, due int64
		err := tx.QueryRowContext(ctx, "SELECT lease_end, due, next FROM ackledger_maintenance").Scan(&leaseEnd, &due, &p.from)
		if err != nil {
			return err
		}
		if now {
			due = 0
		}
		if first := time.UnixMicro(max(leaseEnd, due)); first.After(at) {
			wait = min(first.Sub(at), max(cfg.Interval, turnPoll))
			return nil
		}
		p.began, swept = at, true
		_, err = tx.ExecContext(ctx, "UPDATE ackledger_maintenance SET holder = ?, began = ?, lease_end = ?",
			p.me, at.UnixMicro(), at.Add(maintainLease).UnixMicro())
		return err
	})
	if err != nil || !swept {
		return report, false, wait, sweepError(err)
	}
	err = p.run(ctx)
	if end := p.end(ctx, err == nil); err == nil {
		err = end
	}
	if err == nil && cfg.Report != nil {
		cfg.Report(p.report)
	}
	return p.report, true, 0, sweepError(err)
}

// end gives the turn back, whatever became of the pass; a process that cannot leaves its lease to end by itself.
func (p *pass) end(ctx context.Context, whole bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	if !whole {
		return p.l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE ackledger_maintenance SET holder = NULL, lease_end = 0, due = 0 WHERE holder = ?", p.me)
			return err
		})
	}
	now := time.Now()
	stored := ledger.Pass{At: now, Report: p.report, Scopes: p.tally.Scopes()}
	seen, err := stored.Encode()
	if err != nil {
		return err
	}
	return p.l.write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		return p.held(tx.ExecContext(ctx, `UPDATE ackledger_maintenance SET holder = NULL, lease_end = 0, due = ?, seen_at = ?, seen = ?
			WHERE holder = ?`, now.Add(p.cfg.Pause(&p.report)).UnixMicro(), now.UnixMicro(), seen, p.me))
	})
}

// write is one short transaction on the main file.
func (l *Ledger) write(ctx context.Context, fn func(context.Context, *sql.Tx) error) error {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	return l.main.do(ctx, fn)
}

func sweepError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("ledger/sqlite: sweep: %w", err)
}
