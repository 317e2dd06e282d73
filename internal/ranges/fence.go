package ranges

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/ackledger/ackledger/ledger"
)

// Fenced is what InTx commits of one range: the transaction takes a lock on the range that a take-over waits for and a
// settlement does not (FOR KEY SHARE), makes sure that it is still this owner's and that none of the offsets has left it
// (Done, Back), and writes the offsets as segments.
type Fenced struct {
	Log     Log
	Token   uint64
	From    int64 // the base of the stored Done and Back
	Offsets Set
	Info    Info
	Items   []int // the attempt's tickets
	of      *open
}

// Fences sorts an attempt's tickets: those whose rows are to be fenced, and the ranges of the others, in the order of
// their logs and tokens.
func (o *Owner) Fences(tickets []ledger.Ticket) (rows []int, fences []Fenced) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, t := range tickets {
		log, offset := SplitSum(t.Sum())
		h := o.logs[log]
		if h == nil {
			rows = append(rows, i)
			continue
		}
		r := h.open[t.Token()]
		if r == nil || !r.Has(offset) || r.Done.Has(offset) || r.Back.Has(offset) {
			rows = append(rows, i)
			continue
		}
		at := slices.IndexFunc(fences, func(f Fenced) bool { return f.Log == log && f.Token == r.Token })
		if at < 0 {
			at = len(fences)
			fences = append(fences, Fenced{Log: log, Token: r.Token, From: r.From, Info: h.info, of: r})
		}
		fences[at].Offsets.Add(Span{offset, offset + 1})
		fences[at].Items = append(fences[at].Items, i)
	}
	slices.SortFunc(fences, func(a, b Fenced) int {
		return cmp.Or(bytes.Compare(a.Log[:], b.Log[:]), cmp.Compare(a.Token, b.Token))
	})
	return rows, fences
}

// Committed notes that an InTx has committed these.
func (o *Owner) Committed(fences []Fenced) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range fences {
		h := o.logs[fences[i].Log]
		if h == nil {
			continue
		}
		if r := h.open[fences[i].Token]; r != nil {
			r.Done.AddAll(fences[i].Offsets)
			r.inTx = true
			if r.over() {
				o.ripe.Add(1)
			}
		}
	}
}

// finished notes what a claim has found to be done in a range of ours: an InTx whose end was not known had committed. The
// owner is locked.
func (o *Owner) finished(h *held, offset int64) {
	for _, r := range h.open {
		o.done(r, offset)
	}
}
