package sim

import (
	"context"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// facts is what is known of messages to whoever sees everything.
type facts struct {
	runs map[message]*fact
}

// fact is what is known of one message.
type fact struct {
	running []*running // handlers that have begun and not ended
	done    bool       // a handler has ended so that nothing is left to do
	token   uint64     // of the newest run
	key     ledger.Key
	final   bool // the ledger has finished it
}

// running is a handler in a message.
type running struct {
	by   *process
	sess *session
}

func newFacts() facts { return facts{runs: map[message]*fact{}} }

func (f *facts) of(m message) *fact {
	x := f.runs[m]
	if x == nil {
		x = &fact{}
		f.runs[m] = x
	}
	return x
}

// begins checks what must be true when a handler begins.
func (w *world) begins(p *process, r *running, d delivery, token uint64) {
	f := w.facts.of(d.message)
	for _, o := range f.running {
		if o.by.alive && w.now < o.sess.ledgerUntil && !o.sess.left {
			w.breaks("two live owners never run a message at once: %s begins %s, which %s runs", p, d, o.by)
		}
	}
	if r.sess != p.sess {
		p.breaks("nothing begins once the lease is known to be lost: %s begins %s", p, d)
	}
	if token < f.token {
		w.breaks("fencing tokens only grow: %s begins %s with token %d after %d", p, d, token, f.token)
	}
	f.token = max(f.token, token)
	if !d.first && !w.facts.of(d.before).done {
		w.breaks("messages of an ordering key run in order: %s begins %s before %s is done", p, d, d.before)
	}
	f.running = append(f.running, r)
	w.report.Runs++
}

// ends notes that a handler has ended.
func (w *world) ends(r *running, d delivery, final bool) {
	f := w.facts.of(d.message)
	for i, o := range f.running {
		if o == r {
			f.running = append(f.running[:i], f.running[i+1:]...)
			break
		}
	}
	f.done = f.done || final
}

// mustHaveEnded checks that no handler of a lost session runs on, where it heeds its context.
func (w *world) mustHaveEnded(p *process, sess *session) {
	for _, c := range p.chunks {
		if r := c.running; r != nil && r.sess == sess {
			w.breaks("the handlers of a lost lease are cancelled: %s runs on", p)
		}
	}
}

// mustHaveTold checks that each message was given back once that was offered.
func (w *world) mustHaveTold(p *process) {
	if p.offered != 0 {
		w.breaks("each message is given back once: %s has had %d more than it gave back", p, p.offered)
	}
}

// mustBeEmpty checks that a process in a world without trouble has nothing in hand when all is done.
func (w *world) mustBeEmpty(p *process) {
	w.mustHaveTold(p)
	if items, waiting, bytes := p.flow.Held(); items != 0 || waiting != 0 || bytes.Total() != 0 || len(p.flow.Dispatches()) > 0 {
		w.breaks("when all is done nothing is in hand: %s has %d messages, %d wait, %d bytes", p, items, waiting, bytes.Total())
	}
}

// mustFit checks that no more handlers run than may, beside the suspect's.
func (w *world) mustFit(p *process) {
	n := 0
	for _, c := range p.chunks {
		if c.running != nil {
			n++
		}
	}
	if n > w.cfg.Concurrency+1 {
		w.breaks("as many handlers run as may: %s runs %d", p, n)
	}
}

// mustBeInOrder checks a settlement when it arrives: what succeeds does so after all before it in its ordering key, or with them.
func (w *world) mustBeInOrder(b *flow.Batch) {
	with := map[message]bool{}
	check := func(d delivery) {
		if !d.first && !with[d.before] && !w.terminal(d.before) {
			w.breaks("settlements keep the order of their key: %s succeeds before %s", d, d.before)
		}
		with[d.message] = true
	}
	for i := range b.Items {
		if d := of(b.Items[i].Item); b.Items[i].Kind == ledger.Succeed && !d.copied && !w.terminal(d.message) {
			check(d)
		}
	}
	for _, r := range b.Ranges {
		for _, d := range r.Of.(several).deliveries() {
			check(d)
		}
	}
}

// terminal says whether the ledger has finished a message. That does not change any more.
func (w *world) terminal(m message) bool {
	f := w.facts.of(m)
	if !f.final {
		rec, err := w.ledger.Get(context.Background(), f.key)
		f.final = err == nil && rec.State != ledger.Pending
	}
	return f.final
}

// mustBeTerminal checks that the ledger has finished a message.
func (w *world) mustBeTerminal(d delivery, what string) {
	rec, err := w.ledger.Get(context.Background(), d.key)
	if err != nil || rec.State == ledger.Pending {
		w.breaks("what %s is finished: %s is %v, %v", what, d, rec.State, err)
	}
	if !w.facts.of(d.message).done {
		w.breaks("what %s has been handled: %s was not", what, d)
	}
}

// session is a simulated life in the ledger.
type session struct {
	owner       ledger.Owner
	ranges      ledger.StretchOwner
	until       time.Duration // as the worker knows it
	ledgerUntil time.Duration // as the ledger knows it
	left        bool
}
