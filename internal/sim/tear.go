package sim

import (
	"context"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// tear is a transaction of the ledger that fails, in the middle of a call that takes several.
type tear struct {
	in     int  // so many transactions from now; 0: none does
	after  bool // it was carried out, and nobody knows
	unsure bool // nobody knows, though it was not
}

// tears has the ledger's transactions fail where a call is torn.
func (w *world) tears() {
	fails := func(after bool) memory.Fault {
		return func(_ context.Context, op memory.Op) error {
			if op != memory.Claim && op != memory.Settle || w.tear.in == 0 || w.tear.after != after {
				return nil
			}
			if w.tear.in--; w.tear.in > 0 {
				return nil
			}
			if w.tear.unsure {
				return ledger.MarkUnknown(errAway)
			}
			return errAway
		}
	}
	w.ledger.FailBefore(fails(false))
	w.ledger.FailAfter(fails(true))
}

// torn carries out a call, one of whose transactions may fail. Then it is not known what was written of its messages.
func (p *process) torn(execute func() error, of func(yield func(delivery))) error {
	if !p.trouble(tearing) {
		return execute()
	}
	p.tear = tear{in: 1 + p.rnd.IntN(3), after: p.rnd.IntN(2) == 0, unsure: p.rnd.IntN(2) == 0}
	err := execute()
	p.tear = tear{}
	if err != nil {
		of(func(d delivery) {
			p.twin.forget(d)
			p.facts.of(d.message).asked = true
		})
		p.note(p, "has a call torn", none, 0)
	}
	return err
}

// ofClaim yields what is claimed.
func ofClaim(c *flow.Claim) func(func(delivery)) {
	return func(yield func(delivery)) {
		for _, it := range c.Items {
			yield(of(it))
		}
		for _, r := range c.Ranges {
			for _, d := range r.Of.(several).deliveries() {
				yield(d)
			}
		}
	}
}

// ofBatch yields what is settled.
func ofBatch(b *flow.Batch) func(func(delivery)) {
	return func(yield func(delivery)) {
		for i := range b.Items {
			yield(of(b.Items[i].Item))
		}
		for _, r := range b.Ranges {
			for _, d := range r.Of.(several).deliveries() {
				yield(d)
			}
		}
	}
}
