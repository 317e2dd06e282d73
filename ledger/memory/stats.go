package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/ackledger/ackledger/ledger"
)

// Stats implements [ledger.Inspector]. An owner that left or died is forgotten at once, so none is counted.
func (l *Ledger) Stats(ctx context.Context) (ledger.Stats, error) {
	if err := ctx.Err(); err != nil {
		return ledger.Stats{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	s := ledger.Stats{Answered: l.counts.Answered(), Tables: []ledger.TableStats{
		{Name: "message", Rows: int64(l.rows.len())}, {Name: "archive", Rows: int64(len(l.archives))},
		{Name: "owner", Rows: int64(len(l.live))},
	}}
	for _, o := range l.live {
		s.Owners.Live++
		if o.end.Before(now) {
			s.Owners.Overdue++
		}
	}
	for _, d := range l.deliveries {
		s.Deliveries = append(s.Deliveries, *d)
	}
	slices.SortFunc(s.Deliveries, func(a, b ledger.Deliveries) int {
		return cmp.Or(cmp.Compare(b.Misses+b.Hits, a.Misses+a.Hits), cmp.Compare(a.Scope, b.Scope))
	})
	s.Deliveries = s.Deliveries[:min(len(s.Deliveries), ledger.MaxStatScopes)]
	if p := l.last; p != nil {
		s.At, s.Age, s.Pass, s.Scopes = p.at, now.Sub(p.at), p.report, slices.Clone(p.scopes)
	}
	return s, nil
}

// CountDeliveries implements [ledger.DeliveryCounter].
func (l *Ledger) CountDeliveries(ctx context.Context, more []ledger.Deliveries) error {
	if err := ledger.CheckDeliveries(more); err != nil {
		return err
	}
	return l.do(ctx, Count, func() error {
		for _, n := range more {
			d := l.deliveries[n.Scope]
			if d == nil {
				d = &ledger.Deliveries{Scope: n.Scope, Since: l.now()}
				l.deliveries[n.Scope] = d
			}
			d.Misses, d.Hits, d.Timeouts = d.Misses+n.Misses, d.Hits+n.Hits, d.Timeouts+n.Timeouts
		}
		return nil
	})
}
