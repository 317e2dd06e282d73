package sim

import (
	"context"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/internal/promises"
	"github.com/ackledger/ackledger/internal/visibility"
	"github.com/ackledger/ackledger/ledger"
)

// mustBeInOrder checks a settlement when it arrives: what succeeds does so after all before it in its ordering key, or with them.
func (w *world) mustBeInOrder(b *flow.Batch) {
	with := map[message]bool{}
	check := func(d delivery) {
		if !d.first && !with[d.before] && !w.terminal(d.before) {
			w.breaks(d.message, "settlements keep the order of their key: %s succeeds before %s", d, d.before)
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

// state is what the ledger says of a message; 0: nothing.
func (w *world) state(key ledger.Key) ledger.State {
	rec, err := w.ledger.Get(context.Background(), key)
	if err != nil {
		return 0
	}
	return rec.State
}

// terminal says whether the ledger has finished a message, be it that it was sent again since.
func (w *world) terminal(m message) bool {
	f := w.facts.of(m)
	if !f.final {
		s := w.state(f.key)
		f.final = s == ledger.Succeeded || s == ledger.Failed
	}
	return f.final
}

// mustBeTerminal checks that the ledger has finished a message, as it was decided; else the promise is broken. Another body says nothing
// of it.
func (w *world) mustBeTerminal(d delivery, promise string) {
	f := w.facts.of(d.message)
	if d.forged || d.skip || f.renewed {
		return
	}
	rec, err := w.ledger.Get(context.Background(), d.key)
	switch {
	case w.inCare(d.key):
	case err != nil || rec.State == ledger.Pending:
		w.breaks(d.message, promise+": %s is %v, %v", d, rec.State, err)
	case rec.State == ledger.Succeeded && !f.succeeded || rec.State == ledger.Failed && !f.failed:
		w.breaks(d.message, promise+": %s is %v, and was not handled so", d, rec.State)
	}
}

// mustBeGuilty checks that a message is given up for its crashes only if it is to blame: as far as nothing else makes processes die
// or look dead. What runs beside a suspect may kill its process, too: an innocent message is given up only if that
// happens to it each time.
func (w *world) mustBeGuilty(d delivery) {
	m := &w.cfg.Moods
	lucky := w.facts.of(d.message).unlucky < ledger.CrashLimit-ledger.SuspectCrashes
	if m[mishap]+m[refused]+m[requestLost]+m[answerLost]+m[callLate] == 0 && !w.marked(deadly, d.message) && lucky {
		w.breaks(d.message, promises.InnocentStays+": %s", d)
	}
}

// heeds is how long a handler takes to heed its context, and some more.
const heeds = 20 * time.Millisecond

// mustHaveCancelled checks that no handler of a lost session runs on: it heeds its context.
func (w *world) mustHaveCancelled(p *process, sess *session) {
	for _, c := range p.chunks {
		for _, r := range c.running {
			if r.sess == sess && r.began < w.now-10*time.Millisecond && !w.cfg.InTx && c.steps == nil {
				w.breaks(of(r.it).message, "the handlers of a lost lease are cancelled: %s runs on", p)
			}
		}
	}
}

// mustHaveDrained checks the end of a drain: no handler runs, and each message was given back once.
func (w *world) mustHaveDrained(p *process) {
	for _, c := range p.chunks {
		if len(c.running) > 0 {
			w.breaks(of(c.running[0].it).message, "after a drain no handler runs: one of %s does", p)
		}
	}
	if p.offered != 0 && p.telling == 0 { // what came after the drain had begun may still be told
		w.breaks(none, "each message is given back once: %s has had %d more than it gave back", p, p.offered)
	}
}

// mustHaveGivenBack checks a drop after its grace.
func (p *process) mustHaveGivenBack(d *flow.Drop) {
	if !d.Ended() {
		p.breaks(none, "what is taken back is given back after the grace: not by %s", p)
	}
}

// What a dispatch has at most, beside its last message.
const (
	mostItems = 69
	mostBytes = 128 << 10
)

// mustFit checks a dispatch: its size, one message of each ordering key, and no more of them than handlers may run.
func (w *world) mustFit(p *process, c *chunk) {
	d := c.d
	if d.Together {
		keys := map[string]bool{}
		for i := range d.N {
			it := c.item(i)
			if key := it.OrderingKey; key != "" && keys[key] || d.N > w.cfg.Batch {
				w.breaks(of(it).message, "a batch has its size, and one message of an ordering key: %s has %d", p, d.N)
			} else {
				keys[key] = true
			}
		}
	}
	var bytes int64
	for i := range d.N - 1 {
		bytes += c.item(i).Size
	}
	if !d.Together && (d.N > mostItems || bytes > mostBytes) {
		w.breaks(none, "a dispatch is short: %s has %d messages of %d bytes", p, d.N, bytes)
	}
	beside := 0
	for _, s := range []*apart{&p.suspect, &p.probe} {
		if s.turn {
			beside++
		}
	}
	if len(p.chunks) > w.cfg.Concurrency+beside {
		w.breaks(none, "as many handlers run as may: %s runs %d", p, len(p.chunks))
	}
	if n := len(p.flow.Dispatches()); n != len(p.chunks) {
		w.breaks(none, "what is dispatched is known: %d of %d", n, len(p.chunks))
	}
}

// mustBeWithinLimit checks how many dispatches the pool has, when it has got one more.
func (p *process) mustBeWithinLimit() {
	beside := 0
	for _, c := range p.chunks {
		if c.beside {
			beside++
		}
	}
	if n := len(p.chunks) - beside + 1; n > p.flow.Concurrency() {
		p.breaks(none, "as many handlers begin as the limit allows: %s runs %d, the limit is %d", p, n, p.flow.Concurrency())
	}
}

// stuckAfter is after how long nothing waits behind a handler any more that others could run.
const stuckAfter = 20 * time.Millisecond

// mustWaitForNobody checks that others get what waits behind a handler that takes long.
func (w *world) mustWaitForNobody(c *chunk, began time.Duration) {
	if len(c.running) > 0 && c.running[0].began == began && !c.back && c.next < c.d.Limit() {
		w.breaks(of(c.running[0].it).message, "nothing waits behind a slow handler: %d messages of %s do", c.d.Limit()-c.next, c.p)
	}
}

// mustHaveEnded checks a world in which all is done.
func (w *world) mustHaveEnded() {
	for _, m := range w.facts.all() { // a stray copy of what begins anew may claim it, and does not come again
		f := w.facts.of(m)
		rec, err := w.ledger.Get(context.Background(), f.key)
		if stray := f.renewed && w.straying(); !f.gone && !stray && (err != nil || rec.State == ledger.Pending) {
			w.breaks(m, promises.NothingLost+": %s is %v, %v", m, rec.State, err)
		}
		if w.cfg.InTx && !f.old && (rec.State == ledger.Succeeded) != (f.effects == 1) {
			w.breaks(m, promises.EffectsOnce+": %s is %s, and has %d effects", m, rec.State, f.effects)
		}
	}
	// A message that is ours still, after the ledger refused to take it back, may be new to another copy.
	if n := w.facts.met.Misses; n > int64(w.report.Messages+w.anew) && w.cfg.Moods[odd] == 0 {
		w.breaks(none, "a message is new once: %d of %d were", n, w.report.Messages)
	}
	if w.cfg.Moods == [kinds]float64{} {
		w.mustHaveBeenStill()
	}
	w.mustHaveParkedNothing()
	w.mustBeEmpty()
	w.mustBeClosed()
	w.mustCountAnswers()
	w.mustBeOne()
	w.mustFade()
}

// straying says whether a delivery may be in hand that its broker does not bring again.
func (w *world) straying() bool {
	if w.cfg.Callers > 0 { // a call that was given up may have claimed what had failed
		return true
	}
	for _, k := range [...]kind{copied, unnoticed, revocation, forgotten, reread, uncommitted, unsure, mishap, deadly} {
		if w.cfg.Moods[k] > 0 {
			return true
		}
	}
	return false
}

// mustBeEmpty checks what processes keep that have nothing in hand: in a world in which nothing of theirs can be in doubt.
func (w *world) mustBeEmpty() {
	for k := range kinds {
		if (k < ofBrokers || k == tearing) && w.cfg.Moods[k] > 0 {
			return
		}
	}
	for _, k := range w.workers {
		if p := k.process; p != nil && p.offered == 0 && !p.wanting && p.idle+p.claimers+p.settlers+p.publishers == w.cfg.Concurrency+6 && !p.flow.Empty() {
			w.breaks(none, "what is finished leaves nothing in memory: something of it is left in %s", p)
		}
	}
}

// mustHaveBeenStill checks a world in which nothing went wrong: each message ran once, and nothing is in hand.
func (w *world) mustHaveBeenStill() {
	if w.cfg.Callers > 0 {
		w.mustHaveAnswered()
		return
	}
	if w.report.Runs != w.report.Messages || w.facts.met.Hits+w.facts.met.Timeouts != 0 || w.facts.met.Misses != int64(w.report.Messages) {
		w.breaks(none, "without trouble each message runs once: %d runs of %d messages, %+v", w.report.Runs, w.report.Messages, w.facts.met)
	}
	each, calls := 2*w.cfg.Pace, 2*w.report.Messages+2*w.cfg.Workers
	if w.cfg.InTx {
		each, calls = each+6*time.Millisecond, calls+w.report.Messages
	}
	if w.cfg.Budget > 0 { // it stops until it knows a scope, and gives back what it has
		calls += 10 * w.cfg.Workers * w.cfg.Partitions
	}
	if w.cfg.LimitStarts {
		each += 20 * time.Millisecond
	}
	each, calls = w.stepped(each, calls)
	lanes := w.cfg.Concurrency
	if w.cfg.Least > 0 {
		lanes = w.cfg.Least
	}
	if w.cfg.Keys > 0 { // one begins when the one before it is settled
		each, lanes = each+6*time.Millisecond, min(lanes, w.cfg.Keys)
	}
	each, lanes = w.slowed(each, lanes)
	if w.cfg.Limit > 0 { // a permit is asked for, and given back, for one message after the other
		each, lanes, calls = each+600*time.Millisecond, 1, calls+100*w.report.Messages
	}
	idle := 600 * time.Millisecond
	if w.cfg.Visibility > 0 { // a poll that finds nothing takes its time
		idle += waiting * time.Duration(1+w.report.Messages/visibility.MaxBatch)
	}
	if most := idle + time.Duration(w.report.Messages)*(500*time.Microsecond+each/time.Duration(lanes)); w.report.Took > most {
		w.breaks(none, "without trouble no handler waits in vain: it took %s, at most %s", w.report.Took, most)
	}
	if w.report.Calls > calls {
		w.breaks(none, "without trouble the ledger is asked and told once: %d calls, at most %d", w.report.Calls, calls)
	}
	for _, k := range w.workers {
		p := k.process
		if items, waiting, bytes := p.flow.Held(); items != 0 || waiting != 0 || bytes.Total() != 0 || len(p.flow.Dispatches()) > 0 || p.offered != 0 {
			w.breaks(none, "when all is done nothing is in hand: %s has %d messages, %d wait, %d bytes", p, items, waiting, bytes.Total())
		}
	}
}
