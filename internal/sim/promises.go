package sim

import (
	"context"
	"strings"
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

// known is what a process has been told, and must have happened.
type known struct {
	refused map[*flow.Item]int // settlements that the ledger or the cipher refused

	verdicts map[*flow.Item]*session // what failed for good in a handler
	room     map[string]room         // of scopes of which the ledger has said how much they have
	spent    bool                    // it was told that one is
	paused   bool
	open     bool          // the breaker is
	away     bool          // the ledger did not answer the last call
	stopped  bool          // it was told that an operator stops it
	told     time.Duration // when the call was sent that told of the pauses last
	ends     []final
	closed   time.Duration // when the breaker closed last
	idle     time.Duration // when there last was no room, or nothing to poll for
}

// final is a message that came to its end.
type final struct {
	at    time.Duration
	good  bool
	scope string
}

// mustBeOpen checks that the breaker has opened where too much failed: of what ended some seconds ago, since it has hardly been told
// of the rest. A failure that is not sealed is kept, and counts once it is.
func (p *process) mustBeOpen() {
	good, bad := 0, 0
	for _, e := range p.known.ends {
		switch {
		case e.good && e.at > p.now-70*time.Second:
			good++
		case !e.good && e.at > max(p.known.closed, p.now-40*time.Second) && e.at < p.now-5*time.Second:
			bad++
		}
	}
	if p.cfg.Failures > 0 && p.cfg.Moods[unsealed] == 0 && bad > p.cfg.Failures && bad > good && !p.known.open {
		p.breaks(none, "the breaker opens where too much fails: %s saw %d fail, and %d go well", p, bad, good)
	}
}

// ended is how many messages came to their end that the breaker must have counted.
func (p *process) ended() (n int) {
	for _, e := range p.known.ends {
		if e.at > max(p.known.closed, p.now-40*time.Second) && e.at < p.now-5*time.Second {
			n++
		}
	}
	return n
}

// mustHaveCalledOff checks that the handler of what is given back is cancelled.
func (p *process) mustHaveCalledOff(it *flow.Item) {
	for _, c := range p.chunks {
		for _, r := range c.running {
			if c.item(r.at) == it && r.sess == p.sess && !c.off[r.at] {
				p.breaks(of(it).message, "a handler is cancelled whose message is given back: %s runs on", p)
			}
		}
	}
}

// room is what a scope has in the archive, as the ledger said it last.
type room struct {
	asked time.Duration
	bytes int64
}

// weighed checks that what the ledger said is known, and told if it is too much.
func (p *process) weighed(scope string, asked time.Duration, bytes int64) {
	p.known.room[scope] = room{asked, bytes}
	if bytes >= p.budget() && !p.known.spent {
		p.breaks(none, "a budget that is spent is told: %s is silent about %s", p, scope)
	}
	if n := p.flow.Archived()[scope]; n < bytes {
		p.breaks(none, "what is archived is known: %d of %d bytes by %s", n, bytes, p)
	}
}

// hasRoom says whether a scope has room in its budget, of which the ledger spoke, and which this process has spent since: but for the
// last seconds, of which the flow may not know yet.
func (p *process) hasRoom(scope string) bool {
	r, ok := p.known.room[scope]
	for _, e := range p.known.ends {
		if !e.good && e.scope == scope && e.at > r.asked && e.at < p.now-5*time.Second {
			r.bytes += ledger.ArchiveRowBytes
		}
	}
	return ok && r.bytes < p.budget()
}

// hearAll checks all news.
func (p *process) hearAll() {
	c := p.flow.End()
	for i := range c.News {
		p.hear(&c.News[i])
	}
	c.News = c.News[:0]
}

// hear checks news: each has its reason.
func (p *process) hear(n *flow.News) {
	k, d := &p.known, delivery{message: none}
	p.report.News++
	if n.Item != nil {
		d = of(n.Item)
	}
	lie := false
	switch n.What {
	case flow.Archived:
		lie = !d.forged && !p.terminal(d.message)
	case flow.Refused:
		k.refused[n.Item]--
		lie = k.refused[n.Item] < 0
	case flow.BreakerOpened:
		lie = k.open || p.cfg.Failures == 0 || n.Failed <= p.cfg.Failures || n.Failed > n.All || n.All < p.ended()
		k.open = true
	case flow.BreakerClosed:
		lie = !k.open
		k.open, k.closed = false, p.now
	case flow.ProbeFailed:
		lie = !k.open
	case flow.BudgetSpent:
		lie = p.cfg.Budget == 0 || n.Bytes < n.Limit
		k.spent = true
	case flow.Stopped, flow.WentOn:
		lie = p.heardOrder(n)
	case flow.BudgetHasRoom:
		lie = p.cfg.Budget == 0 || !k.spent
		k.spent = false
	}
	if lie {
		p.breaks(d.message, "news is of what happened: %s tells %d", p, n.What)
	}
}

// counted adds what deliveries were.
func (p *process) counted(c flow.Counted) {
	all := &p.facts.met
	all.Misses, all.Hits, all.Timeouts = all.Misses+c.Misses, all.Hits+c.Hits, all.Timeouts+c.Timeouts
	if !strings.HasPrefix(c.Scope, "sim/") {
		p.breaks(none, "deliveries are counted in their scope: %q", c.Scope)
	}
}

// mustWeigh checks what the flow says of the bytes in hand.
func (p *process) mustWeigh() {
	_, _, bytes := p.flow.Held()
	if p.telling > 0 {
		return
	}
	if least := int64(p.offered) * size; bytes.Total() < least {
		p.breaks(none, "what is in hand weighs: %d messages of %s have %d bytes", p.offered, p, bytes.Total())
	}
	if crowd := bytes.Crowd(); bytes.Room() <= 0 && p.larges > 1 && crowd < p.larges || crowd > 0 && bytes.Room() > 0 {
		p.breaks(none, "a crowd takes all the room: %d of %d messages, and there is room for %d bytes", crowd, p.larges, bytes.Room())
	}
}

// look asks what operators ask, now and then.
func (p *process) look() {
	p.flow.Kept(func(it *flow.Item, since time.Duration, why error) {
		if since > p.now || why == nil {
			p.breaks(of(it).message, "what is kept was refused: %s since %s, %v", of(it), since, why)
		}
	})
	p.mustBeOpen()
	if open, since := p.flow.BreakerOpen(); open != p.known.open || open && since > p.now {
		p.breaks(none, "health says what the breaker does: open is %t", open)
	}
	p.mustWeigh()
	if p.room() <= 0 || p.polling || p.source == nil || !p.source.more() {
		p.known.idle = p.now
	} else if p.now > p.known.idle+5*time.Second && p.now > p.frozen+5*time.Second {
		p.breaks(none, "where there is room, it is polled for: %s has had room since %s", p, p.known.idle)
	}
	if stops, _, bytes, known, _ := p.flow.BudgetStops(); stops && known && bytes < p.budget() {
		p.breaks(none, "a budget is spent when it is: %d of %d bytes", bytes, p.budget())
	}
	p.after(p.between(100*time.Millisecond, 2*time.Second), p.look)
}
