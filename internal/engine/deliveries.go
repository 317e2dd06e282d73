package engine

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// deliveries keeps what was counted by scope, until a beat takes it to the ledger.
type deliveries struct {
	to     ledger.DeliveryCounter // nil: the ledger keeps no counts
	log    *zap.Logger
	failed bool // the last call of send was, and the log says so

	mu     sync.Mutex
	counts map[string]ledger.Deliveries
}

func newDeliveries(l ledger.Ledger, log *zap.Logger) *deliveries {
	d := &deliveries{log: log, counts: map[string]ledger.Deliveries{}}
	d.to, _ = l.(ledger.DeliveryCounter)
	return d
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

// send adds to the ledger what was counted since the last call. What it refuses waits for the next one; what it may have added
// is not sent again: too few are counted then, and never too many.
func (d *deliveries) send(ctx context.Context, limit time.Duration) {
	d.mu.Lock()
	counts := slices.Collect(maps.Values(d.counts))
	clear(d.counts)
	d.mu.Unlock()
	if len(counts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := d.to.CountDeliveries(ctx, counts)
	if err != nil && !ledger.Unknown(err) {
		for _, n := range counts {
			d.add(n)
		}
	}
	if err != nil && !d.failed {
		d.log.Warn("deliveries cannot be counted in the ledger", zap.Error(err))
	}
	d.failed = err != nil
}
