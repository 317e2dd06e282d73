package sim

import (
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/internal/visibility"
)

// What a receiver does at once.
const (
	mostPolls   = 3
	mostChanges = 8 // requests
	mostDeletes = 4 // requests
)

const (
	linger  = 50 * time.Millisecond // for a batch of deletes to fill
	atLast  = 4 * time.Second       // for the last requests, after the drain
	waiting = 2 * time.Second       // of a poll that finds nothing
)

// receiver is a process that consumes a queue: the real visibility table, and what a shell would do around it.
type receiver struct {
	*process
	queue     *queue
	table     *visibility.Table
	asked     int           // messages, by polls that are open
	open      int           // polls
	changes   int           // requests under way
	deletes   int           // requests under way
	lingers   bool          // a batch of deletes is filling
	poked     bool          // the keeper is
	looked    time.Duration // by the keeper
	disturbed time.Duration // when something last kept it from its requests
	seen      seen
}

func newReceiver(p *process, q *queue) *receiver {
	r := &receiver{
		process: p, queue: q, table: visibility.New(p.cfg.Visibility, q.limit-timeout, q.fifo()),
		looked: p.now, disturbed: p.now, seen: newSeen(),
	}
	r.after(0, r.tick)
	return r
}

// request sends a request to the queue. execute runs when it arrives, be it that nobody waits for it any more; answered gets
// whether an answer came in time.
func (r *receiver) request(what string, limit time.Duration, execute func(), answered func(ok bool)) {
	w, over := r.world, false
	end := func(ok bool) {
		if !over {
			over = true
			answered(ok)
		}
	}
	late := func() time.Duration {
		rest := w.latency()
		if w.trouble(callLate) {
			rest = w.between(0, limit+time.Second)
		}
		if rest > r.cfg.Visibility/6 {
			r.disturbed = w.now + rest
		}
		return rest
	}
	switch {
	case w.trouble(refused):
		r.disturbed = w.now
		r.after(w.latency(), func() { end(false) })
		return
	case w.trouble(requestLost):
		r.disturbed = w.now + limit
		w.note(r.process, "loses "+what, none, 0)
	default:
		w.after(late(), func() {
			execute()
			if w.trouble(answerLost) {
				r.disturbed = w.now + limit
				w.note(r.process, "gets no answer to "+what, none, 0)
				return
			}
			r.after(late(), func() { end(true) })
		})
	}
	r.after(limit, func() { end(false) })
}

// more is false: a queue is polled all the time.
func (r *receiver) more() bool { return false }

func (r *receiver) poll() {
	_, all := r.table.Lanes()
	n := min(min(int(r.room()), maxHeld-all)-r.asked, visibility.MaxBatch)
	if n <= 0 || r.open == mostPolls {
		return
	}
	r.open++
	r.asked += n
	sent := r.now
	var got []received
	over := func(rest time.Duration) {
		if r.draining {
			rest = 0
		}
		r.after(rest, func() {
			r.open--
			r.asked -= n
			r.ends()
			r.polls()
		})
	}
	r.request("a receive", timeout, func() { got = r.queue.receive(r, n) }, func(ok bool) {
		if !ok || len(got) == 0 {
			over(r.between(0, waiting))
			return
		}
		r.take(got, sent, func(fresh int) {
			if fresh > 0 {
				over(0)
			} else {
				over(r.between(0, waiting))
			}
		})
	})
	r.polls()
}

// take takes in what a poll has brought. A moment later the flow has what of it is new.
func (r *receiver) take(got []received, sent time.Duration, then func(fresh int)) {
	var items []*flow.Item
	for _, g := range got {
		h := &visibility.Hold{ID: g.String(), Group: g.group, Handle: g.handle}
		arrival := r.table.Receive(h, sent, r.now)
		if arrival != visibility.ArrivedDead {
			r.seen.newest[g.message] = g.handle
		}
		if arrival == visibility.ArrivedNew {
			d := g.delivery
			d.of = h
			r.mustBeNew(d.message)
			items = append(items, r.item(d, g.group))
		}
	}
	r.deleteSoon()
	r.moment(func() {
		for _, it := range items {
			d := of(it)
			r.seen.hold(d)
			r.offer(it)
		}
		r.moment(func() {
			var drops []*visibility.Hold
			for _, it := range items {
				if h := of(it).of.(*visibility.Hold); r.table.Dropped(h) {
					drops = append(drops, h)
				}
			}
			r.let(drops)
			then(len(items))
		})
	})
}

// moment lets something else happen before, now and then.
func (r *receiver) moment(do func()) {
	if r.cfg.Moods[callLate] > 0 && r.rnd.IntN(4) == 0 {
		r.after(r.between(0, 300*time.Millisecond), do)
		return
	}
	do()
}

func (r *receiver) has(d delivery) bool {
	h := d.of.(*visibility.Hold)
	ok, drops := r.table.Start(h, r.now)
	r.let(drops)
	if ok {
		r.mustBeGood(h.Handle, "begins")
	}
	return ok
}

// let has the flow let go of what has lapsed.
func (r *receiver) let(drops []*visibility.Hold) {
	if len(drops) == 0 {
		return
	}
	lapsed := map[any]bool{}
	for _, h := range drops {
		lapsed[h] = true
	}
	r.moment(func() { r.drop(func(d delivery) bool { return lapsed[d.of] }, r.between(0, 5*time.Second), func() {}) })
}

func (r *receiver) finished(d delivery, v flow.Verdict) {
	r.ends()
	h := d.of.(*visibility.Hold)
	switch {
	case v.Ack:
		r.seen.acked[d.message] = true
		r.table.Ack(h)
		r.deleteSoon()
	case v.Held:
		r.table.Forget(h)
	case r.table.HandBack(h, v.Again, r.now):
		r.seen.handedBack(h, r.made, r.draining && v.Again <= 0)
		r.poke()
	}
}

// ends tells the table that the worker stops, once it does, and that no poll is open any more.
func (r *receiver) ends() {
	if !r.draining {
		return
	}
	if r.seen.stopped == 0 {
		r.seen.stopped = r.now
	}
	r.table.Drain()
	if r.open == 0 {
		r.table.PollsOver()
		r.poke()
	}
}

func (r *receiver) drained(then func()) {
	deadline := r.now + atLast
	var look func()
	look = func() {
		r.ends()
		deletes, returns := r.table.Waiting()
		if r.open > 0 || r.offered > 0 || deletes+returns > 0 && r.now < deadline {
			r.after(10*time.Millisecond, look)
			return
		}
		r.mustHaveHandedBack()
		then()
	}
	look()
}

// tick has the keeper look at the table now and then. Where a machine is busy it comes late.
func (r *receiver) tick() {
	rest := r.cfg.Visibility / 24
	if r.now-r.looked > 2*rest || !r.live() {
		r.disturbed = r.now
	}
	r.looked = r.now
	r.keep()
	if r.trouble(callLate) {
		rest = r.between(0, r.cfg.Visibility)
		r.disturbed = r.now + rest
	}
	r.after(rest, r.tick)
}

func (r *receiver) live() bool { return r.sess != nil && r.now < r.sess.until }

// poke has the keeper look at the table at once.
func (r *receiver) poke() {
	if !r.poked {
		r.poked = true
		r.after(0, func() {
			r.poked = false
			r.keep()
		})
	}
}

func (r *receiver) keep() {
	batches, drops := r.table.Plan(r.now, r.live(), mostChanges-r.changes)
	r.let(drops)
	for _, batch := range batches {
		r.changes++
		r.change(batch)
	}
}

// change sends a batch of visibility changes.
func (r *receiver) change(batch []visibility.Change) {
	sent, outcomes := r.now, make([]visibility.Outcome, len(batch))
	r.mustBeTheOnlyBack(batch)
	for _, c := range batch {
		r.mustBeAsked(c)
		r.mustBeAlone(c.Hold)
	}
	r.request("a change of visibility", min(max(r.cfg.Visibility/6, time.Second), timeout), func() {
		for i, c := range batch {
			switch {
			case r.trouble(unfit):
				outcomes[i] = visibility.Failed
			case r.queue.change(c.Handle, c.Seconds):
				outcomes[i] = visibility.Changed
			default:
				outcomes[i] = visibility.Refused
			}
		}
	}, func(ok bool) {
		r.changes--
		r.seen.backs -= backs(batch)
		told := make([]visibility.Outcome, len(batch))
		if ok {
			copy(told, outcomes)
		}
		for i, c := range batch {
			r.seen.asked[c.Hold] = false
			if told[i] == visibility.Refused {
				r.seen.refused[c.Handle] = true
			}
			if told[i] != visibility.Changed {
				r.disturbed = r.now
			}
		}
		r.let(r.table.Changed(batch, told, sent, r.now))
		r.deleteSoon()
		r.poke()
	})
}

// deleteSoon sends a batch of deletes when it is full, or after a while.
func (r *receiver) deleteSoon() {
	n := r.table.Deletes()
	if n == 0 || r.lingers || r.deletes == mostDeletes {
		return
	}
	rest := linger
	if n >= visibility.MaxBatch {
		rest = 0
	}
	r.lingers = true
	r.after(rest, func() {
		r.lingers = false
		if batch := r.table.TakeDeletes(); len(batch) > 0 {
			r.deletes++
			r.delete(batch)
		}
		r.deleteSoon()
	})
}

// delete sends a batch of deletes.
func (r *receiver) delete(batch []visibility.Deletion) {
	failed := make([]bool, len(batch))
	for _, d := range batch {
		r.mustBeAlone(d.Hold)
		r.mustBeNewest(d)
	}
	r.request("a delete", timeout, func() {
		for i, d := range batch {
			m := r.queue.handles[d.Handle].message
			if failed[i] = r.trouble(unfit) || r.now < r.cfg.Calm && r.marked(unfit, m); !failed[i] {
				r.queue.delete(d.Handle) // where it is of no use, the message comes again
			}
		}
	}, func(ok bool) {
		r.deletes--
		for i, d := range batch {
			r.seen.asked[d.Hold] = false
			if ok && !failed[i] {
				r.table.Deleted(d)
				continue
			}
			r.disturbed = r.now
			if _, givenUp := r.table.DeleteFailed(d, ok); !givenUp {
				r.after(r.outage(), func() {
					r.table.RetryDelete(d.Hold)
					r.deleteSoon()
				})
			}
		}
		r.deleteSoon()
		r.poke()
	})
}
