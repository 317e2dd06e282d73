package engine

import (
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Records are what a stretch is made of; the worker's. Calls may be concurrent.
type Records interface {
	Len() int
	// Items makes items of the records from <= i < to, as Offer takes them. What is in reuse are items of an earlier call,
	// of these or other records of the worker, that nobody has any more; it may make the new ones of them.
	Items(from, to int, reuse []*Item) []*Item
	// Keep is called before an item goes on without its stretch: what it refers to of the records, it has to copy. Its
	// handler may be running.
	Keep(it *Item)
	// Offset is a record's offset.
	Offset(i int) int64
	// Size is the Item.Size of what is made of a record.
	Size(i int) int64
	// SentAt is a record's consumer.Message.SentAt.
	SentAt(i int) time.Time
}

// Stretch is records of one log that lie side by side, and go through the engine as one as long as nothing but their
// success becomes of them. Whatever else comes up, a failure, a slow handler, a rebalance, another item of the log, splits
// it into the items that it is made of, in the phase in which they would be; they go on by themselves. An ordered log's
// stretches run one after the other, and are settled in that order.
//
//	OfferStretch ─▶ queued ─▶ claiming ─▶ claimed ─▶ running, some records at a time ─▶ settling ─▶ finished (Ack)
//	                   └──────────┴──────────┴──────────────────┴── split ───────────────┘
type Stretch struct {
	Records Records
	// Claim is what the ledger is asked.
	Claim ledger.Stretch
	// Ordered says that no two stretches of this log may run at the same time.
	Ordered bool

	// Guarded by the engine's lock.
	log    string // ledger.Position.Log of the records
	phase  phase
	whole  bool
	n      int   // records of it
	bytes  int64 // of their bodies
	next   int   // records before are running or done
	done   int   // records before are done
	came   time.Time
	sess   *session
	token  uint64
	chunk  *chunk  // that runs now
	items  []*Item // what of it waits for an answer of the ledger that it was split before
	sent   bool    // the ledger is told that it is done
	listed bool    // it is in the queue of those that may run, or somebody has taken it from there
}

// turns are taken by items and stretches where there are both.
type turns struct{ claim, run, settle turn }

type turn bool

// items says whether it is the items' turn, this time.
func (t *turn) items() bool {
	*t = !*t
	return bool(*t)
}

// patience is how long a stretch waits for the items of its log to be over.
const patience = 250 * time.Millisecond

// shyFor is for how long no stretches are offered after a handler made one split: they pay where nothing but success
// happens.
const shyFor = 100 * time.Millisecond

// Stretches implements API.
func (e *Engine) Stretches(ordered bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stretchy(ordered)
}

// stretchy says whether stretches may be claimed and run. A batch has one message of a lane at most, so ordered records go one
// by one into batches.
func (e *Engine) stretchy(ordered bool) bool {
	return !e.limited && e.mayStart() && e.sess.stretches != nil && (e.batch == nil || !ordered)
}

// pays says whether a stretch is worth a try: handlers are fast, and did well of late, and it fills a batch.
func (e *Engine) pays(st *Stretch) bool {
	return e.cost > 0 && e.cost <= e.quick() && st.n >= e.size && !time.Now().Before(e.shy)
}

// OfferStretch implements API.
func (e *Engine) OfferStretch(st *Stretch) {
	log := st.Claim.First.Key.Pos.Log
	st.n, st.whole, st.came, st.log = st.Records.Len(), true, time.Now(), log
	for i := range st.n {
		st.bytes += st.Records.Size(i)
	}
	e.mu.Lock()
	e.ranged = true
	e.meets(st.Claim.First.Key.Scope)
	e.s.addStretch(st)
	if l := e.s.lines[st.log]; !e.stretchy(st.Ordered) || l.stalled > 0 || !l.flows() && !e.pays(st) {
		e.split(st.log)
	} else {
		e.s.stretchQ.push(st)
		e.toRescue.Signal() // it may wait for items in vain
	}
	e.unlock()
}

// makeWay is called before an item is taken in: what is in hand of its log are items from then on.
func (e *Engine) makeWay(it *Item) {
	order, key := it.logs()
	e.split(order)
	e.split(key)
}

// split makes items of all stretches of a log, each in the phase in which it would be by itself. The engine's lock is held.
func (e *Engine) split(log string) {
	l := e.s.lines[log]
	if l == nil || len(l.stretches) == 0 {
		return
	}
	for _, st := range slices.Clone(l.stretches) {
		e.splitOne(st)
	}
	e.s.stretchQ.filter(func(st *Stretch) bool { return st.whole })
}

func (e *Engine) splitOne(st *Stretch) {
	before, behind := st.Records.Items(0, st.done, nil), st.Records.Items(st.next, st.n, nil)
	e.s.dropStretch(st)
	sent := st.sent
	for _, it := range before {
		e.ready(st, it)
		e.takeIn(st, it)
		e.s.holdKey(it)
		if sent {
			e.s.setPhase(it, settling)
		} else {
			e.s.setPhase(it, running)
			e.succeed(it, nil)
		}
	}
	if c := st.chunk; c != nil {
		for i := range c.runs {
			it := c.runs[i].item
			e.takeIn(st, it)
			e.s.count(it, +1)
			e.s.holdKey(it)
		}
		st.chunk, c.stretch = nil, nil
	}
	for _, it := range behind {
		e.ready(st, it)
		e.takeIn(st, it)
		e.standIn(st, it)
	}
	switch {
	case sent:
		st.items = before
	case st.phase == claiming:
		st.items = behind
	}
}

// ready fills in what an item of a stretch would have by now. It is the caller's alone.
func (e *Engine) ready(st *Stretch, it *Item) {
	it.overdue = !it.Deadline.IsZero() && !st.came.Before(it.Deadline)
	if st.token != 0 {
		it.sess, it.ticket, it.attempt = st.sess, ledger.NewTicket(it.Key.Sum(), st.token), 1
		it.met, it.ranged, it.fresh = true, true, true
	}
}

// takeIn takes an item of a stretch in hand.
func (e *Engine) takeIn(st *Stretch, it *Item) {
	st.Records.Keep(it)
	e.enlist(it)
	e.s.enter(it)
}

// standIn puts an item that was taken in where its stretch stood.
func (e *Engine) standIn(st *Stretch, it *Item) {
	switch {
	case st.phase == claimed && e.s.holdKey(it):
		e.ours(it)
	case st.phase == claimed: // another copy has its key
		e.release(it)
	case st.phase == claiming && e.s.holdKey(it):
		e.s.setPhase(it, claiming)
	case e.draining:
		e.finish(it, Verdict{})
	default:
		e.s.list(it, false)
	}
}

// relieve splits stretches of which a batch handler has some for long while another handler has nothing to do: the rest is for
// that one, as far as order allows.
func (e *Engine) relieve() {
	for c := range e.chunks {
		st := c.stretch
		if st != nil && c.together && st.next < st.n && e.idle > 0 && time.Since(e.born)-c.born > e.quick() {
			e.split(st.log)
		}
	}
}

// splitAll splits the stretches of all logs.
func (e *Engine) splitAll() {
	for log := range e.s.lines {
		e.split(log)
	}
}

// splitBlocked splits stretches that wait for items of their log which are not over soon.
func (e *Engine) splitBlocked(now time.Time) {
	for log, l := range e.s.lines {
		for _, st := range l.stretches {
			if st.phase == queued && l.items > 0 && (l.stalled > 0 || now.Sub(st.came) > patience) {
				e.split(log)
				break
			}
		}
	}
}
