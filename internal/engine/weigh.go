package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// How often the ledger is asked how much is archived; consumer.Options.ArchiveBudget names them for users.
const (
	weighRest  = 10 * time.Second
	weighShare = 20        // the rest is so many times as long as the asking took that was answered
	weighLimit = time.Hour // of an archive of any size; the store notices before that if nobody answers
)

// purse is what an engine does about its budget of archived bytes. While a scope has no room, no handler starts, and what is
// claimed is released; what runs is archived all the same. The engine's lock guards it.
type purse struct {
	budget budget
	since  time.Time     // when it stopped
	err    error         // of the last time the ledger was asked
	look   chan struct{} // a scope is new
}

func (e *Engine) newPurse() error {
	e.purse = purse{budget: budget{limit: e.opt.ArchiveBudget}, look: make(chan struct{}, 1)}
	if _, ok := e.cfg.Ledger.(ledger.ArchiveMeter); !ok && e.opt.ArchiveBudget > 0 {
		return fmt.Errorf("engine: Options.ArchiveBudget: needs a ledger that says how much is archived (ledger.ArchiveMeter), is a %T", e.cfg.Ledger)
	}
	return nil
}

// meets takes in the scope of what is offered.
func (e *Engine) meets(scope string) {
	if !e.purse.budget.meet(scope) {
		return
	}
	e.purse.since, e.brake.tripped = time.Now(), e.brake.tripped || e.purse.budget.stops
	select {
	case e.purse.look <- struct{}{}:
	default:
	}
}

// spends counts what failed and is to be archived.
func (e *Engine) spends(it *Item, dead *ledger.Archive) {
	p := &e.purse
	if p.budget.limit > 0 {
		it.extra().spent = dead.Weight()
	}
	stopped := p.budget.stops
	if p.budget.spend(dead.Key.Scope, dead.Weight()); p.budget.stops && !stopped {
		e.spent()
	}
}

// spent stops the worker.
func (e *Engine) spent() {
	e.purse.since, e.brake.tripped = time.Now(), true
	scope := e.purse.budget.over
	e.log.Error("the budget of archived bytes is spent: the worker pauses until there is room", zap.String("scope", scope),
		zap.Int64("bytes", e.purse.budget.scopes[scope].bytes()), zap.Int64("limit", e.opt.ArchiveBudget))
}

// weighLoop asks the ledger now and then how much is archived.
func (e *Engine) weighLoop(m ledger.ArchiveMeter) {
	for failed := 0; ; {
		began := time.Now()
		var rest time.Duration
		if err := e.weigh(m); err == nil {
			rest, failed = max(weighRest, weighShare*time.Since(began)), 0
		} else {
			failed++
			rest = outage(failed)
		}
		t := time.NewTimer(rest)
		select {
		case <-t.C:
		case <-e.purse.look:
		case <-e.gone.Done():
		}
		t.Stop()
		if e.gone.Err() != nil {
			return
		}
	}
}

// weigh asks the ledger for all scopes.
func (e *Engine) weigh(m ledger.ArchiveMeter) error {
	e.mu.Lock()
	if e.purse.budget.stops && e.purse.budget.keep(e.scopesInHand()) {
		e.improved()
	}
	scopes := slices.Collect(maps.Keys(e.purse.budget.scopes))
	e.unlock()
	for _, scope := range scopes {
		e.mu.Lock()
		e.purse.budget.ask(scope, e.onItsWay(scope))
		e.mu.Unlock()
		ctx, cancel := context.WithTimeout(e.gone, weighLimit)
		n, err := m.ArchivedBytes(ctx, scope, e.opt.ArchiveBudget)
		cancel()
		e.weighed(scope, n, err)
		if err != nil {
			return err
		}
	}
	return nil
}

// scopesInHand are those of all that the engine has. Its lock is held.
func (e *Engine) scopesInHand() map[string]bool {
	scopes := map[string]bool{}
	for it := e.all; it != nil; it = it.allNext {
		scopes[it.Key.Scope] = true
	}
	for _, l := range e.s.lines {
		for _, st := range l.stretches {
			scopes[st.Claim.First.Key.Scope] = true
		}
	}
	return scopes
}

// onItsWay is how much of a scope has failed and is not known to be archived: it is published, sealed, settled or kept. It may
// be for as long as a target or a cipher is slow. The engine's lock is held.
func (e *Engine) onItsWay(scope string) (bytes int64) {
	for it := e.all; it != nil; it = it.allNext {
		if it.phase == settling && it.Key.Scope == scope {
			bytes += it.rest().spent
		}
	}
	return bytes
}

// weighed takes the ledger's answer, and stops the worker or lets it go on.
func (e *Engine) weighed(scope string, n int64, err error) {
	e.mu.Lock()
	defer e.unlock()
	p := &e.purse
	if err != nil {
		if p.err == nil && e.gone.Err() == nil {
			e.log.Warn("how much is archived cannot be read", zap.String("scope", scope), zap.Error(err))
		}
		p.err = err
		return
	}
	p.err = nil
	first, stopped := !p.budget.scopes[scope].known, p.budget.stops
	p.budget.answered(scope, n)
	switch {
	case p.budget.stops && p.budget.over == scope && (first || !stopped):
		e.spent()
	case stopped && !p.budget.stops:
		if !first {
			e.log.Info("the archive has room again: the worker goes on", zap.Duration("after", time.Since(p.since)))
		}
		e.improved()
	}
}

// why says in words why nothing starts.
func (p *purse) why() string {
	a := p.budget.scopes[p.budget.over]
	switch {
	case a.known:
		return fmt.Sprintf("the budget of archived bytes is spent: %d of %d in scope %q", a.bytes(), p.budget.limit, p.budget.over)
	case p.err != nil:
		return fmt.Sprintf("how much of scope %q is archived cannot be read: %v", p.budget.over, p.err)
	}
	return fmt.Sprintf("how much of scope %q is archived is not known yet", p.budget.over)
}

// stalls says that the worker does not get on.
func (p *purse) stalls() []consumer.Stall {
	if !p.budget.stops {
		return nil
	}
	return []consumer.Stall{{What: "the worker", Reason: consumer.StallBudget, Why: p.why(), Since: p.since}}
}

// archivedBytes says what each scope has in the archive, as far as that is known; nothing without a budget.
func (e *Engine) archivedBytes() map[string]int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	known := map[string]int64{}
	for scope, a := range e.purse.budget.scopes {
		if a.known {
			known[scope] = a.bytes()
		}
	}
	return known
}
