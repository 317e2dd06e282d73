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

// message is a record's place.
type message struct {
	partition int
	offset    int64
}

// fact is what is known of one message.
type fact struct {
	running []*running // handlers that have begun and not ended
	done    bool       // a handler has ended so that nothing is left to do
	token   uint64     // of the newest run
}

// running is a handler in a message.
type running struct {
	by   *process
	sess *session
}

func newFacts() facts { return facts{runs: map[message]*fact{}} }

func (d delivery) message() message { return message{d.of.part.number, d.offset} }

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
	f := w.facts.of(d.message())
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
	if k := w.cfg.Keys; k > 0 && !d.copied {
		before := message{d.of.part.number, d.offset - int64(k)}
		if before.offset >= 0 && !w.facts.of(before).done {
			w.breaks("messages of an ordering key run in order: %s begins %s before %d-%d is done", p, d, before.partition, before.offset)
		}
	}
	f.running = append(f.running, r)
	w.report.Runs++
}

// ends notes that a handler has ended.
func (w *world) ends(r *running, d delivery, final bool) {
	f := w.facts.of(d.message())
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
	k, with := int64(w.cfg.Keys), map[message]bool{}
	check := func(part *partition, offset int64) {
		before := message{part.number, offset - k}
		if k > 0 && before.offset >= 0 && !with[before] && !w.terminal(part, before.offset) {
			w.breaks("settlements keep the order of their key: %d-%d succeeds before %d-%d", part.number, offset, part.number, before.offset)
		}
		with[message{part.number, offset}] = true
	}
	for i := range b.Items {
		if d := of(b.Items[i].Item); b.Items[i].Kind == ledger.Succeed && !d.copied && !w.terminal(d.of.part, d.offset) {
			check(d.of.part, d.offset)
		}
	}
	for _, r := range b.Ranges {
		rec := r.Of.(*records)
		for o := rec.from; o < rec.from+rec.n; o++ {
			check(rec.of.part, o)
		}
	}
}

// terminal says whether the ledger has finished a message.
func (w *world) terminal(p *partition, offset int64) bool {
	rec, err := w.ledger.Get(context.Background(), p.key(offset))
	return err == nil && rec.State != ledger.Pending
}

// mustBeTerminal checks that the ledger has finished a message.
func (w *world) mustBeTerminal(p *partition, offset int64, what string) {
	rec, err := w.ledger.Get(context.Background(), p.key(offset))
	if err != nil || rec.State == ledger.Pending {
		w.breaks("what %s is finished: %d-%d is %v, %v", what, p.number, offset, rec.State, err)
	}
	if !w.facts.of(message{p.number, offset}).done {
		w.breaks("what %s has been handled: %d-%d was not", what, p.number, offset)
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
