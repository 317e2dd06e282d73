package engine

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// dedup counts what became of deliveries, as far as it says how many of them are duplicates: each delivery counts once at most,
// unless it was given back without a trace. Attempts after the first, be they retries or take-overs, are neither new nor
// duplicates.
type dedup struct {
	misses   int64 // first claims
	returned int64 // of these, given back without a trace: the next claim is a first one again
	hits     int64 // finished before this delivery was claimed
	timeouts int64 // given back to the broker while a live owner had the message
}

// add counts the ledger's answer to an item, and notes in the item what later ones go by. An answer that was lost counts with
// the one that follows it.
func (d *dedup) add(it *Item, c *ledger.Claim) {
	switch c.Answer {
	case ledger.Run:
		if c.First && !it.met {
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

// count counts deliveries of a scope.
func (e *Engine) count(scope string, d dedup) {
	if d == (dedup{}) {
		return
	}
	e.tel.deduplicated(d)
	e.known.add(ledger.Deliveries{Scope: scope, Misses: d.misses - d.returned, Hits: d.hits, Timeouts: d.timeouts})
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
