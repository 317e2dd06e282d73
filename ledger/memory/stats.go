package memory

import (
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
	if p := l.last; p != nil {
		s.At, s.Age, s.Pass, s.Scopes = p.at, now.Sub(p.at), p.report, slices.Clone(p.scopes)
	}
	return s, nil
}
