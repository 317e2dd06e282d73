package ranges

import (
	"context"

	"github.com/ackledger/ackledger/ledger"
)

// Steps implements [ledger.StepReader]. What still lies in its range has no row, and so no step; the ledger need not be asked.
func (o *Owner) Steps(ctx context.Context, t ledger.Ticket) ([]ledger.Step, error) {
	if o.inRange(t) {
		return nil, nil
	}
	r, ok := o.Store.(ledger.StepReader)
	if !ok {
		return nil, ledger.ErrNoSteps
	}
	return r.Steps(ctx, t)
}

// inRange says whether a message lies in an open range of this owner's for certain.
func (o *Owner) inRange(t ledger.Ticket) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	log, offset := SplitSum(t.Sum())
	h := o.logs[log]
	if h == nil {
		return false
	}
	r := h.open[t.Token()]
	return r != nil && r.Has(offset) && !r.Done.Has(offset) && !r.Back.Has(offset) && !h.doubt.Has(offset)
}
