package engine

import (
	"os"
	"runtime/debug"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

// mostTold bounds the lists of a report, of which a few entries fit.
const mostTold = 20

// reporter says how the worker is, for those who look at the ledger.
type reporter struct {
	*kernel
	pool   *pool
	self   ledger.WorkerReport // what does not change
	lag    func() []ledger.Lag // nil: nobody knows
	health func() consumer.Health
	load   func(*ledger.WorkerReport) // fills in what is in hand; the kernel's lock is held
}

// self is what does not change in an engine's reports.
func self(scopes []string) ledger.WorkerReport {
	r := ledger.WorkerReport{PID: os.Getpid(), Started: time.Now()}
	r.Host, _ = os.Hostname() // for people only
	if info, ok := debug.ReadBuildInfo(); ok {
		r.Version = info.Main.Version
	}
	if len(scopes) > 0 {
		r.Scope = scopes[0]
	}
	if len(scopes) > 1 {
		r.Scopes = scopes
	}
	return r
}

// report is what the worker says of itself with its next beat.
func (p *reporter) report() ledger.WorkerReport {
	h := p.health()
	r := p.self
	r.Alive, r.Ready, r.Error = h.Alive, h.Ready, h.LastError
	r.Warnings = h.Warnings[:min(len(h.Warnings), mostTold)]
	for i := range h.Stalled[:min(len(h.Stalled), mostTold)] {
		s := &h.Stalled[i]
		switch s.Reason {
		case consumer.StallPaused, consumer.StallBreaker, consumer.StallBudget:
			if r.Paused == "" || s.Reason == consumer.StallPaused {
				r.Paused = s.Why
			}
		default:
			r.Stalled = append(r.Stalled, s.What+": "+s.Why)
		}
	}
	if p.lag != nil {
		r.Lag = p.lag()
	}
	r.Failed, r.Retried, r.Duplicates = p.tel.sums.failed.Load(), p.tel.sums.retried.Load(), p.tel.sums.hits.Load()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.load(&r)
	now := p.now()
	r.Succeeded = p.flow.WentWell()
	p.pool.eachRun(func(c *chunk, _ *run) { r.Oldest = max(r.Oldest, now-time.Duration(c.at.Load())) })
	if r.Paused == "" && p.flow.Paused() {
		r.Paused = "paused by its program"
	}
	return r
}
