package sim

import (
	"context"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/memory"
)

// tear is a transaction of the ledger that fails, or waits for a lock in vain, in the middle of a call that takes several.
type tear struct {
	in     int  // so many transactions from now; 0: none does
	after  bool // it was carried out, and nobody knows
	unsure bool // nobody knows, though it was not
	lock   bool // it has waited in vain
	met    bool // it has come
	wrote  int  // transactions of the call that were carried out
}

// tears has the ledger's transactions fail where a call is torn.
func (w *world) tears() {
	fails := func(after bool) memory.Fault {
		return func(_ context.Context, op memory.Op) error {
			t := &w.tear
			if op == memory.Sweep && !after {
				w.amid()
			}
			if op != memory.Claim && op != memory.Settle {
				return nil
			}
			if after {
				t.wrote++
			} else {
				w.report.Transactions++
			}
			if t.in == 0 || t.after != after {
				return nil
			}
			if t.in--; t.in > 0 {
				return nil
			}
			t.met = true
			switch {
			case t.lock:
				return driver.MarkBusy(errLocked)
			case t.unsure:
				return ledger.MarkUnknown(errAway)
			}
			return errAway
		}
	}
	w.ledger.FailBefore(fails(false))
	w.ledger.FailAfter(fails(true))
}

// tearNext draws what becomes of the transactions of a call.
func (w *world) tearNext() {
	w.tear = tear{}
	switch {
	case w.trouble(tearing):
		w.tear = tear{in: 1 + w.rnd.IntN(3), after: w.rnd.IntN(2) == 0, unsure: w.rnd.IntN(2) == 0}
	case w.trouble(contended):
		w.tear = tear{in: 1 + w.rnd.IntN(3), lock: true}
	}
}

// torn carries out a call, one of whose transactions may fail. Then it is not known what was written of its messages, unless nothing
// was. What an owner is not sure to have settled it may write with a later call.
func (p *process) torn(execute func() error, of func(yield func(delivery)), claim bool) error {
	p.tearNext()
	err := execute()
	p.tear.in = 0
	if p.cfg.Callers > 0 {
		of(p.sees)
	}
	if p.cfg.Watched && p.cfg.Ranged && ledger.IsLost(err) { // it may have written, and what it has given back is new again
		p.answers.unsure = true
		of(func(d delivery) {
			p.anew++
			p.twin.forget(d)
		})
	}
	if err != nil && p.tear.met {
		p.answers.unsure = true
		of(func(d delivery) {
			if p.tear.wrote > 0 || !claim && ledger.Unknown(err) {
				p.twin.forget(d)
			}
			p.facts.of(d.message).asked = true
		})
		p.note(p, "has a call torn", none, 0)
	}
	return err
}

// waits says whether an answer says no more than that a lock was not free. It leaves the message as it was, in a row perhaps.
func (p *process) waits(e *ledger.Entry, is *ledger.Claim) bool {
	if !p.tear.lock || !p.tear.met || is.Answer != ledger.Busy || is.Held || is.Suspect || is.Wait > 0 {
		return false
	}
	x := p.twin.rows[e.Key.Sum()]
	if x == nil && p.cfg.Ranged {
		x = &row{began: p.now, state: ledger.Pending, body: e.Fingerprint, loose: true, back: true, filed: map[string]bool{}}
		p.twin.rows[e.Key.Sum()] = x
	}
	if x != nil {
		x.moved = true
	}
	return true
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
