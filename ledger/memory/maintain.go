package memory

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

var (
	_ ledger.Maintainer = (*Ledger)(nil)
	_ ledger.Inspector  = (*Ledger)(nil)
)

// passed is what the last pass left for Stats.
type passed struct {
	report ledger.SweepReport
	at     time.Time
	scopes []ledger.ScopeStats
}

// Maintain implements [ledger.Maintainer]. The ledger also sweeps a few rows at each claim by itself, so it does not
// grow for ever without; Maintain makes what Stats answers.
func (l *Ledger) Maintain(ctx context.Context, cfg ledger.MaintainConfig) error {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return err
	}
	return ledger.RunMaintain(ctx, cfg, func(ctx context.Context) (time.Duration, error) {
		report, err := l.sweep(ctx, cfg)
		return cfg.Pause(&report), err
	})
}

// Sweep implements [ledger.Maintainer]. Tests with a clock of their own call it to see a window end. Without
// MaintainConfig.Keep it goes by [WithKeep].
func (l *Ledger) Sweep(ctx context.Context, cfg ledger.MaintainConfig) (ledger.SweepReport, error) {
	if cfg.Keep == 0 && l.keep >= time.Millisecond {
		cfg.Keep = l.keep
	}
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return ledger.SweepReport{}, err
	}
	return l.sweep(ctx, cfg)
}

func (l *Ledger) sweep(ctx context.Context, cfg ledger.MaintainConfig) (ledger.SweepReport, error) {
	if err := ctx.Err(); err != nil {
		return ledger.SweepReport{}, err
	}
	select {
	case l.sweeper <- struct{}{}:
		defer func() { <-l.sweeper }()
	case <-ctx.Done():
		return ledger.SweepReport{}, ctx.Err()
	}
	p := &pass{ledger: l, cfg: cfg, ctx: ctx}
	if err := p.run(); err != nil {
		return ledger.SweepReport{}, err
	}
	if cfg.Report != nil {
		cfg.Report(p.report)
	}
	return p.report, nil
}

// pass is one look at every row.
type pass struct {
	ledger *Ledger
	cfg    ledger.MaintainConfig
	ctx    context.Context
	report ledger.SweepReport
	tally  ledger.Tally
	locked time.Time
}

func (p *pass) run() error {
	l := p.ledger
	p.lock()
	defer l.mu.Unlock()
	began := l.now()
	p.report.Began = began
	for _, g := range l.logs {
		g.cut(began)
	}
	looked := 0
	for sum, at := range l.rows.at {
		if looked++; looked%p.cfg.Batch == 0 { // an iteration survives what others change meanwhile
			p.unlock()
			runtime.Gosched()
			p.lock()
			if err := p.ctx.Err(); err != nil {
				return err
			}
			if l.rows.at[sum] != at {
				continue
			}
		}
		p.look(sum, l.rows.row(at), l.now())
	}
	p.ranges(l.now())
	p.report.Archives = l.sweepArchives(l.now(), len(l.archives))
	p.audits(l.now().Add(-p.cfg.KeepAudit))
	p.report.Abandoned, p.report.Oldest = p.tally.Abandoned(), p.tally.Oldest()
	now := l.now()
	p.report.Took = now.Sub(began)
	p.ended()
	l.last = &passed{report: p.report, at: now, scopes: p.tally.Scopes()}
	return nil
}

// audits removes what of the audit is older than that. The ledger is locked.
func (p *pass) audits(before time.Time) {
	l := p.ledger
	old := 0
	for old < len(l.audits) && l.audits[old].At.Before(before) {
		old++
	}
	l.audits = slices.Delete(l.audits, 0, old)
	p.report.Audits += int64(old)
}

func (p *pass) lock() {
	p.ledger.mu.Lock()
	p.locked = time.Now()
}

func (p *pass) unlock() {
	p.ended()
	p.ledger.mu.Unlock()
}

func (p *pass) ended() {
	p.report.Transactions++
	p.report.Longest = max(p.report.Longest, time.Since(p.locked))
}

// look counts one row, or removes it. The ledger is locked.
func (p *pass) look(sum [ledger.KeySize]byte, r *row, now time.Time) {
	l := p.ledger
	since := now.Sub(l.begin)
	p.report.Rows++
	if l.spokenFor(sum, r) { // and counted there
		p.tally.Add(l.rows.scopeOf(r), ledger.Succeeded, -1)
	}
	over := r.gone(p.cfg.Keep) < since
	if over && l.needed(sum, r) {
		over = false
		l.strip(sum, r)
	}
	switch {
	case over && r.state == ledger.Pending && !l.rows.held(r):
		p.report.Dropped++
		l.rows.remove(sum)
	case over && r.state != ledger.Pending:
		p.report.Messages++
		l.rows.remove(sum)
	case r.state == ledger.Pending:
		abandoned := int64(0)
		if r.expiry < since {
			abandoned = 1
			p.tally.Abandon(ledger.Abandoned{
				Scope: l.rows.scopeOf(r), ID: clone(l.rows.id(r)), At: l.begin.Add(r.at), Expiry: l.begin.Add(r.expiry),
			})
		}
		age := max(since-r.at, 0)
		p.tally.AddPending(l.rows.scopeOf(r), ledger.AgeBucket(age), 1, abandoned, age)
	default:
		p.tally.Add(l.rows.scopeOf(r), r.state, 1)
	}
}
