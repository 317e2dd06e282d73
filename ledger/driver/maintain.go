package driver

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/ackledger/ackledger/internal/maintenance"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

const (
	// sweepLease is how long the others wait for a process that died while it swept. Each transaction extends it.
	sweepLease = 30 * time.Second
	// turnPoll is how often Sweep asks whether the process that sweeps has ended its pass.
	turnPoll = 200 * time.Millisecond
	// endLimit bounds the giving back of the turn: a worker that ends while the tables are locked waits no longer.
	endLimit = 2 * time.Second
	// sweepAim is what a transaction of the sweep should take at most: others may wait for it.
	sweepAim = 100 * time.Millisecond
)

// errTurnLost says that another process took the turn: this one did not get on for a whole lease.
var errTurnLost = errors.New("the turn to sweep was lost to another process")

// Maintain implements [ledger.Maintainer].
func (l *Ledger) Maintain(ctx context.Context, cfg ledger.MaintainConfig) error {
	cfg.Interval = cmp.Or(cfg.Interval, l.cfg.Interval)
	cfg, err := maintenance.WithDefaults(cfg)
	if err != nil {
		return err
	}
	failing := false
	return maintenance.Run(ctx, cfg, func(ctx context.Context) (time.Duration, error) {
		report, swept, wait, err := l.takeTurn(ctx, cfg, false)
		if err != nil && ctx.Err() == nil && !failing {
			l.cfg.Warn("the sweep failed; it is tried again", err)
		}
		if failing = err != nil; swept {
			wait = maintenance.PassPause(cfg, &report)
		}
		return wait, err
	})
}

// Sweep implements [ledger.Maintainer].
func (l *Ledger) Sweep(ctx context.Context, cfg ledger.MaintainConfig) (ledger.SweepReport, error) {
	cfg, err := maintenance.WithDefaults(cfg)
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
			return report, l.named("sweep: another process sweeps", ctx.Err())
		}
	}
}

// takeTurn makes a whole pass, if nobody else is at it and (unless now is set) one is due; else it returns when to look
// again.
func (l *Ledger) takeTurn(ctx context.Context, cfg ledger.MaintainConfig, now bool) (report ledger.SweepReport, swept bool, wait time.Duration, err error) {
	p := &pass{l: l, cfg: cfg, me: rand.Text(), gentle: !now, named: map[OwnerID]bool{}, pace: maintenance.NewPace(cfg.Batch, sweepAim)}
	err = p.update(ctx, func(tx Tx) error {
		swept = false
		t, err := tx.Turn()
		if err != nil {
			return err
		}
		first := t.Lease
		if !now && t.Due.After(first) {
			first = t.Due
		}
		if wait = first.Sub(tx.Now()); wait > 0 {
			wait = min(wait, max(cfg.Interval, turnPoll))
			return nil
		}
		p.began, p.from, swept = tx.Now(), t.Next, true
		t.Holder, t.Lease, t.Pass = p.me, p.began.Add(sweepLease), nil
		return tx.PutTurn(t)
	})
	if err != nil || !swept {
		return report, false, wait, l.named("sweep", err)
	}
	err = p.run(ctx)
	if end := p.end(ctx, err == nil); err == nil {
		err = end
	}
	if err != nil {
		return ledger.SweepReport{}, true, 0, l.named("sweep", err)
	}
	if cfg.Report != nil {
		cfg.Report(p.report)
	}
	return p.report, true, 0, nil
}

// update is one transaction of the sweep.
func (p *pass) update(ctx context.Context, fn func(Tx) error) error {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	return p.l.store.Update(ctx, Call{Op: Sweep}, fn)
}

// hold makes sure that the turn is this pass' still, and extends it. next, unless it is empty, is where the next pass begins.
func (p *pass) hold(tx Tx, next Mark) error {
	t, err := tx.Turn()
	if err != nil {
		return err
	}
	if t.Holder != p.me {
		return errTurnLost
	}
	if t.Lease, t.Pass = tx.Now().Add(sweepLease), nil; next != "" {
		t.Next = next
	}
	return tx.PutTurn(t)
}

// end gives the turn back, whatever became of the pass; a process that cannot leaves its lease to end by itself.
func (p *pass) end(ctx context.Context, whole bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	return p.update(ctx, func(tx Tx) error {
		t, err := tx.Turn()
		if err != nil {
			return err
		}
		if t.Holder != p.me {
			return errTurnLost
		}
		t.Holder, t.Lease, t.Due, t.Pass = "", time.Time{}, time.Time{}, nil
		if whole {
			stored := maintenance.Pass{At: tx.Now(), Report: p.report, Scopes: p.tally.Scopes()}
			if t.Pass, err = stored.Encode(); err != nil {
				return err
			}
			t.Due = tx.Now().Add(maintenance.PassPause(p.cfg, &p.report))
		}
		return tx.PutTurn(t)
	})
}

// Stats implements [ledger.Inspector].
func (l *Ledger) Stats(ctx context.Context) (ledger.Stats, error) {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	var s ledger.Stats
	err := l.store.View(ctx, Call{Op: Read}, func(r Reader) error {
		t, err := r.Turn()
		if err != nil || t.Pass == nil {
			return err
		}
		p, err := maintenance.DecodePass(t.Pass)
		s = p.Stats(r.Now())
		return err
	})
	if err == nil {
		s.Tables, err = l.store.Tables(ctx)
	}
	if err == nil {
		s.Owners, err = l.store.CountOwners(ctx)
	}
	if err == nil {
		s.Deliveries, err = l.store.Deliveries(ctx)
	}
	if err != nil {
		return ledger.Stats{}, l.named("stats", err)
	}
	s.Answered = l.counts.Answered()
	return s, nil
}
