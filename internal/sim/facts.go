package sim

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/internal/promises"
	"github.com/ackledger/ackledger/ledger"
)

// facts is what is known of messages to whoever sees everything.
type facts struct {
	runs map[message]*fact
	met  flow.Counted // what deliveries were, as the workers count them
}

// fact is what is known of one message.
type fact struct {
	key       ledger.Key
	asked     bool       // the ledger has answered for it
	running   []*running // handlers that have begun and not ended
	succeeded bool       // a handler has ended well
	failed    bool       // it was decided that nothing more comes of it
	final     bool       // the ledger has finished it, perhaps before it was sent again
	renewed   bool       // it was claimed once more after it had failed, or reopened
	gone      bool       // its log has lost it
	old       bool       // its log has begun behind it, for so long that the ledger may have forgotten it
	cut       bool       // a process died in its handler
	follows   bool       // it is parked in a lane, and another is before it
	before    message    // that one
	token     uint64     // of the newest run
	fails     int        // handlers that failed
	effects   int        // that were committed
	deaths    int        // of processes that it has killed
	unlucky   int        // deaths of processes by others, while it had their place for suspects

	recorded map[string]kept // steps
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

// all are the messages that came, in order.
func (f *facts) all() []message {
	return slices.SortedFunc(maps.Keys(f.runs), func(a, b message) int {
		return cmp.Or(a.partition-b.partition, cmp.Compare(a.offset, b.offset))
	})
}

// done says whether nothing is left to do for a message.
func (f *fact) done() bool { return f.succeeded || f.failed || f.renewed }

// session is a simulated life in the ledger.
type session struct {
	owner       ledger.Owner
	permits     map[string][]permit // of keys, in the order in which they came
	ranges      ledger.StretchOwner
	until       time.Duration // as the worker knows it
	ledgerUntil time.Duration // as the ledger knows it
	left        bool
	leftAt      time.Duration
	fate        ledger.Holder // how it ended, as an answer has shown; Nobody: none has
	life        *life         // nil: the ledger has a clock
	swept       bool          // its owner may have gone, and what names it is free then
}

// size is how many bytes a message takes: a large one more than a quarter of the room.
func (w *world) size(m message) int64 {
	if w.marked(large, m) {
		return maxHeld * size * 3 / 10
	}
	return size
}

// begins checks what must be true when a handler begins.
func (w *world) begins(r *running) {
	p, d := r.by, of(r.it)
	f, token := w.facts.of(d.message), r.ticket.Token()
	w.note(p, "begins", d.message, int64(token))
	for _, o := range f.running {
		if o.by.alive && w.now < o.sess.ledgerUntil && !o.sess.left {
			w.breaks(d.message, promises.OneOwner+": %s begins %s, which %s runs", p, d, o.by)
		}
	}
	if token < f.token && (r.it.Ranged || !w.cfg.Mixed) { // claims by row do not ask what a log had that was dropped
		w.breaks(d.message, promises.TokensGrow+": %s begins %s with token %d after %d", p, d, token, f.token)
	}
	f.token = max(f.token, token)
	if !d.first && !w.facts.of(d.before).done() {
		w.breaks(d.message, "messages of an ordering key run in order: %s begins %s before %s is done", p, d, d.before)
	}
	if d.forged || d.skip || r.it.Invalid != nil {
		w.breaks(d.message, promises.NotToBeRun+": %s begins %s", p, d)
	}
	if w.cfg.Park && f.cut {
		w.breaks(d.message, promises.ParkedStays+": %s begins %s again", p, d)
	}
	if n := r.attempt; n > attempts || n > f.fails+1 {
		w.breaks(d.message, promises.AttemptsEnd+": %s begins attempt %d of %s, which failed %d times", p, n, d, f.fails)
	}
	if f.effects > 0 {
		w.breaks(d.message, "what has taken effect is not run again: %s begins %s", p, d)
	}
	if again := w.facts.of(d.message).renewed || d.redrive != nil; again && w.state(d.key) != ledger.Pending || !again && w.terminal(d.message) {
		w.breaks(d.message, promises.FinishedStays+": %s begins %s", p, d)
	}
	w.mayBegin(r)
	w.mustHeedRules(r)
	w.mustKeepLimit(r)
	if c, is := d.of.(*call); is {
		c.begins(r)
	}
	f.running = append(f.running, r)
	w.report.Runs++
}

// mayBegin checks that the process may begin anything.
func (w *world) mayBegin(r *running) {
	p, d := r.by, of(r.it)
	why := ""
	switch {
	case r.sess != p.sess:
		why = "the lease is lost"
	case p.draining:
		why = "it drains"
	case p.known.paused:
		why = "it pauses"
	case p.known.away || !p.flow.Up():
		why = "the ledger does not answer"
	case w.cfg.Budget > 0 && !p.hasRoom(r.it.Key.Scope):
		why = "the archive's budget is spent"
	case p.stopped(r.it.Key.Scope):
		why = "an operator has paused its scope"
	case p.known.open && p.suspect.it != r.it && p.probe.it != r.it:
		why = "the breaker is open"
	case r.it.Solo() && p.suspect.it != r.it:
		why = "a suspect has a place of its own"
	case p.known.verdicts[r.it] == r.sess && !w.facts.of(d.message).renewed:
		why = "its verdict is to be settled"
	}
	if why != "" {
		w.breaks(d.message, "nothing begins while %s: %s begins %s", why, p, d)
	}
}

// ends notes that a handler has ended, and what follows from it.
func (w *world) ends(r *running, o *flow.Outcome) {
	d := of(r.it)
	f := w.facts.of(d.message)
	for i, other := range f.running {
		if other == r {
			f.running = append(f.running[:i], f.running[i+1:]...)
			break
		}
	}
	what := "ends well"
	switch {
	case o.Again || o.Ask:
		what = "ends, and is to be repeated,"
	case o.More != nil && o.More.Kind == ledger.Fail:
		f.failed, what = true, "fails for good in"
		f.fails++
		r.by.known.verdicts[r.it] = r.sess
		r.by.known.ends = append(r.by.known.ends, final{w.now, false, r.it.Key.Scope})
	case o.More != nil && (o.More.Kind == ledger.Release || o.More.Kind == ledger.Park):
		what = "gives up"
		if o.More.Count {
			what = "fails in"
			f.fails++
		}
	default:
		f.succeeded = true
		r.by.known.ends = append(r.by.known.ends, final{w.now, true, r.it.Key.Scope})
	}
	w.note(r.by, what, d.message, 0)
}

// takesEffect notes that a transaction has committed.
func (w *world) takesEffect(r *running, answer []byte) {
	d := of(r.it)
	f := w.facts.of(d.message)
	w.note(r.by, "commits", d.message, 0)
	f.succeeded = true
	if c, is := d.of.(*call); is {
		c.of.effect = answer
		c.of.look(c)
	}
	if f.effects++; f.effects > 1 {
		w.breaks(d.message, promises.EffectsOnce+": %s commits %s again", r.by, d)
	}
}

// cutShort notes that a process dies with what runs in it.
func (p *process) cutShort() {
	for _, c := range p.chunks {
		for _, r := range c.running {
			d := of(r.it)
			f := p.facts.of(d.message)
			if !slices.Contains(f.running, r) { // it had committed, and was reopened
				continue
			}
			f.cut = true
			if f.deaths++; f.deaths > ledger.CrashLimit+1 && p.marked(deadly, d.message) {
				p.breaks(d.message, promises.CrashesEnd+": %s has killed %d processes", d, f.deaths)
			}
		}
	}
}

// settledOne checks what the ledger says to a settlement.
func (p *process) settledOne(d delivery, kind ledger.SettleKind, err error) {
	if kind == ledger.Park && err == nil {
		p.report.Parked++
	}
	if err != nil || d.forged {
		return
	}
	rec, _ := p.ledger.Get(context.Background(), d.key)
	if f := p.facts.of(d.message); kind == ledger.Succeed && !f.succeeded || kind == ledger.Fail && !f.failed && rec.State == ledger.Failed {
		p.breaks(d.message, "what is settled has happened: %s is %s", d, rec.State)
	}
}
