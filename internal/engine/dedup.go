package engine

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// dedup counts what became of deliveries, as far as it says how many of them are duplicates: each delivery counts once at most.
// Attempts after the first, be they retries or take-overs, are neither new nor duplicates.
type dedup struct {
	misses   int64 // first claims
	hits     int64 // finished before this delivery was claimed
	timeouts int64 // given back to the broker while a live owner had the message
}

// add counts the ledger's answer to an item, and notes in the item what later ones go by. An answer that was lost counts with
// the one that follows it. The first claim of a message in a range counts once it has left a trace there, or can no longer be
// given back without one: whoever claims it next is told of a first claim again if it is, also after this worker was killed.
func (d *dedup) add(it *Item, c *ledger.Claim) {
	switch c.Answer {
	case ledger.Run:
		switch {
		case c.First && c.Ranged:
			it.fresh = true
		case c.First && !it.met:
			d.misses++
		}
		it.met = true
	case ledger.Done:
		if !it.met {
			d.hits++
		}
	}
	it.ranged = c.Ranged
	it.behind = c.Held || it.behind && unexplained(c)
}

// deliveries keeps what was counted by scope, until a beat takes it to the ledger.
type deliveries struct {
	to     ledger.DeliveryCounter // nil: the ledger keeps no counts
	failed bool                   // the last call of addCounts was, and the log says so

	mu     sync.Mutex
	counts map[string]ledger.Deliveries
}

func (d *deliveries) add(more ledger.Deliveries) {
	if d.to == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.counts[more.Scope]
	n.Scope, n.Misses, n.Hits, n.Timeouts = more.Scope, n.Misses+more.Misses, n.Hits+more.Hits, n.Timeouts+more.Timeouts
	d.counts[more.Scope] = n
}

func (d *deliveries) take() []ledger.Deliveries {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := slices.Collect(maps.Values(d.counts))
	clear(d.counts)
	return all
}

// firsts are first claims of one scope, counted when the engine's lock is left.
type firsts struct {
	scope string
	n     int64
}

// traced counts the first claim of an item in a range, which is not given back without a trace any more.
func (e *Engine) traced(it *Item) {
	if it.fresh {
		it.fresh = false
		e.counts(it.Key.Scope, 1)
	}
}

func (e *Engine) counts(scope string, n int) {
	if e.firsts.scope != scope {
		e.countFirsts()
		e.firsts.scope = scope
	}
	e.firsts.n += int64(n)
}

func (e *Engine) countFirsts() {
	if n := e.firsts.n; n > 0 {
		e.firsts.n = 0
		e.count(e.firsts.scope, dedup{misses: n})
	}
}

// maybeForgotten is for settlements of which the ledger may have carried out some, without an answer.
func (e *Engine) maybeForgotten(batch []settlement) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range batch {
		if batch[i].unharmed() {
			batch[i].item.forgotten()
		}
	}
}

// forgotten is an item that was given back, or may have been. In a range that leaves no trace: its next claim is its first,
// whoever makes it.
func (it *Item) forgotten() {
	if it.ranged {
		it.met, it.fresh = false, false
	}
}

// count counts deliveries of a scope.
func (e *Engine) count(scope string, d dedup) {
	if d == (dedup{}) {
		return
	}
	e.tel.deduplicated(d)
	e.known.add(ledger.Deliveries{Scope: scope, Misses: d.misses, Hits: d.hits, Timeouts: d.timeouts})
}

// addCounts adds to the ledger what was counted since the last call. What it refuses waits for the next one; what it may have
// added is not sent again: too few are counted then, and never too many. It takes a sixth of the lease at most, after which
// the next beat still comes in time.
func (e *Engine) addCounts(ctx context.Context) {
	counts := e.known.take()
	if len(counts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(e.callTimeout(), e.opt.Lease/6))
	defer cancel()
	err := e.known.to.CountDeliveries(ctx, counts)
	if err != nil && !ledger.Unknown(err) {
		for _, n := range counts {
			e.known.add(n)
		}
	}
	if err != nil && !e.known.failed {
		e.log.Warn("deliveries cannot be counted in the ledger", zap.Error(err))
	}
	e.known.failed = err != nil
}
