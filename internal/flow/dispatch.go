package flow

import (
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Divisible says whether what has not begun could be recalled for others.
func (d *Dispatch) Divisible() bool { return d.ordered || d.N > 1 && !d.Together }

// Patience is at how many looks in a row, a millisecond apart, it may stand still until it is Stuck. Nobody can run what stands behind a record
// of an ordered range, so that a goroutine that waits for a processor is not taken for a slow handler.
func (d *Dispatch) Patience() int {
	if d.rng != nil && d.rng.Ordered {
		return 10
	}
	return 1
}

// Limit is how many of the items were not recalled.
func (d *Dispatch) Limit() int { return d.limit }

// Applied is how many of the first items are over.
func (d *Dispatch) Applied() int { return d.applied }

// newDispatch dispatches items; it copies the array.
func (f *Flow) newDispatch(now time.Duration, items []*Item) *Dispatch {
	d := f.anyDispatch(now, len(items), nil)
	d.Items, d.solo = append(d.Items, items...), items[0].solo
	for _, it := range items {
		it.dispatch = d
		if it.phase != running {
			f.s.setPhase(it, running)
		}
	}
	return d
}

// anyDispatch dispatches n messages, of a range or of none.
func (f *Flow) anyDispatch(now time.Duration, n int, r *Range) *Dispatch {
	var d *Dispatch
	if last := len(f.free) - 1; last >= 0 {
		d, f.free = f.free[last], f.free[:last]
	} else {
		d = &Dispatch{}
	}
	*d = Dispatch{
		Items: d.Items[:0], N: n, Together: f.cfg.Batch, rng: r, ordered: r != nil && !f.cfg.Batch, limit: n, born: now, at: len(f.dispatches),
	}
	f.dispatches = append(f.dispatches, d)
	if d.Divisible() || r != nil {
		d.watched = true
		f.watched++
	}
	return d
}

func (f *Flow) unwatch(d *Dispatch) {
	if d.watched {
		d.watched = false
		f.watched--
	}
}

// Free gives a dispatch back that is over, to be used again.
func (f *Flow) Free(d *Dispatch) {
	f.unwatch(d)
	f.cmd.Improved = true
	if d.beside {
		f.beside--
	}
	last := f.dispatches[len(f.dispatches)-1]
	last.at = d.at
	f.dispatches[d.at] = last
	f.dispatches[len(f.dispatches)-1] = nil
	f.dispatches = f.dispatches[:len(f.dispatches)-1]
	clear(d.Items)
	d.Of, d.rng = nil, nil
	f.free = append(f.free, d)
}

// Ready says how many items and ranges may be dispatched now.
func (f *Flow) Ready() int {
	if !f.MayStart() {
		return 0
	}
	return max(min(f.s.readyQ.len()+f.s.rangeReady.len(), f.room()), 0)
}

// Next dispatches items, or takes a part of a range for Begin: what is next. idle is how many goroutines have nothing to do.
// Neither: nothing may start now.
func (f *Flow) Next(now time.Duration, idle int) (*Dispatch, Part) {
	for f.MayStart() && f.room() > 0 {
		idle = min(idle, f.room()-1)
		whole := f.s.rangeReady.len() > 0
		if f.turns.run.items() || !whole {
			if items := f.takeReady(idle); len(items) > 0 {
				d := f.newDispatch(now, items)
				clear(items)
				f.begins(now, d)
				return d, Part{}
			}
		}
		if p := f.s.popPart(f.dispatchSize(idle), f.cfg.Batch); p.Range != nil {
			f.handed++
			return nil, p
		}
		if !whole || f.s.readyQ.len() == 0 {
			break
		}
	}
	return nil, Part{}
}

// takeReady takes items that may start now. Each is running from then on: one that lost its place and got it back is in the
// queue twice.
func (f *Flow) takeReady(idle int) []*Item {
	n, bytes := f.dispatchSize(idle), int64(0)
	items := f.scratch[:0]
	for len(items) < n && f.s.readyQ.len() > 0 && (bytes < dispatchBytes || f.cfg.Batch) {
		it := f.s.readyQ.pop()
		if it.phase != claimed || !it.isHead() {
			continue
		}
		if it.single && len(items) > 0 { // what spoilt a batch runs alone
			f.s.readyQ.pushFront(it)
			break
		}
		f.s.setPhase(it, running)
		items = append(items, it)
		bytes += it.Size
		if it.single {
			break
		}
	}
	f.scratch = items
	return items
}

// dispatchSize says how many messages to dispatch at once.
func (f *Flow) dispatchSize(idle int) int {
	switch {
	case f.cfg.Batch:
		return f.cfg.BatchSize
	case f.cfg.LimitStarts || f.cost <= 0:
		return 1
	}
	n := min(int(dispatchTime/f.cost), dispatchItems)
	if f.cost > spread {
		n = min(n, f.s.readyQ.len()/(idle+1))
	}
	return max(n, 1)
}

// SpreadAll says that each ready item is to wake a goroutine: handlers are slow, or it is not known how slow.
func (f *Flow) SpreadAll() bool { return f.cost > spread || f.cost == 0 }

// Alone dispatches an item that was claimed alone; nil: it is not to run, and was released.
func (f *Flow) Alone(now time.Duration, it *Item) *Dispatch {
	switch {
	case it.phase != claimed || !it.isHead():
	case f.MayWork() && !f.heldBack(it):
		d := f.newDispatch(now, []*Item{it})
		d.beside = true
		f.beside++
		return d
	default: // paused, or an outage, since it was asked for
		f.release(it)
	}
	return nil
}

// recall asks for what has not begun of a dispatch.
func (f *Flow) recall(d *Dispatch) {
	if d.rng != nil {
		f.expand(d.rng.log)
	}
	if !d.recalled {
		d.recalled = true
		f.cmd.Recall = append(f.cmd.Recall, d)
	}
}

// recallAll leaves in handlers only what has begun.
func (f *Flow) recallAll() {
	f.expandAll()
	for _, d := range f.dispatches {
		f.recall(d)
	}
}

// Stuck gives to others what stands behind a handler that takes long.
func (f *Flow) Stuck(now time.Duration, d *Dispatch) {
	if d.Divisible() {
		f.recall(d)
	}
}

// Watched says whether there is something that Stuck or Rescue may have to look at.
func (f *Flow) Watched() bool { return f.watched > 0 || f.s.rangeQ.len() > 0 }

// Recalled takes back the items from begun on, which nobody runs: they are claimable by other goroutines.
func (f *Flow) Recalled(d *Dispatch, begun int) {
	d.recalled = true
	f.unwatch(d)
	d.limit = min(begun, d.N)
	for i := d.N - 1; i >= d.limit; i-- {
		it := d.Items[i]
		it.dispatch = nil
		f.s.setPhase(it, claimed)
		switch {
		case it.sess.lost:
			f.giveBack(it)
		case it.dropped || f.draining, it.solo, f.cfg.Park, f.breaker.open, f.halted(): // it has its place for suspects no more
			f.release(it)
		case it.isHead():
			f.s.readyQ.pushFront(it)
		}
	}
}

// Took notes how long the runs of a dispatch took, and that they are over. Of two dispatches in a row the faster one counts: what the
// system holds up now and then, such as a goroutine that waits for a processor, says nothing of the handlers.
func (f *Flow) Took(d *Dispatch, took time.Duration, whole bool) {
	n := d.limit
	if n == 0 {
		return
	}
	if d.Together {
		n = 1
	}
	mean := max(took/time.Duration(n), 1)
	if f.cost == 0 {
		f.cost, f.took = mean, mean
	}
	mean, f.took = min(mean, f.took), mean
	if whole { // a range that pauses says that the system does
		mean = min(mean, 8*f.cost)
	}
	f.cost += (mean - f.cost) / 4
}

// Skip is why a handler was not started after all.
type Skip uint8

// The reasons.
const (
	Started   Skip = iota
	NotAlive       // the broker has it back
	LeaseOver      // perhaps not ours any more: the process was frozen, or the ledger does not answer
	CalledOff      // cancelled before it began
)

// Outcome is how the run of an item ended, and what follows from it.
type Outcome struct {
	Skip  Skip
	Ack   bool               // its transaction has settled it, and it succeeded
	Again bool               // it is to run again at once, by itself; no attempt is counted
	Ask   bool               // whether it is ours is not known, or it is not
	More  *ledger.Settlement // what is to be settled; nil, and none of the above: a plain success
	// Burdens says that it failed as it may because there is too much to do, and not for good.
	Burdens bool
	// Narrow says that the item did not begin, since it waits for what is not in its sequence: nothing behind it is claimed until one of
	// the sequence has begun.
	Narrow bool
	// Else is with a settlement that parks: what is settled instead if the ledger, or the cipher, refuses that.
	Else *ledger.Settlement
}

// succeeds says whether the message is to be settled as succeeded.
func (o *Outcome) succeeds() bool {
	return !o.Again && !o.Ack && !o.Ask && (o.More == nil || o.More.Kind == ledger.Succeed)
}

// heard notes how a call ended. What says nothing of the load does not count: a message that is put off or fails for good, a handler
// that was cancelled.
func (d *Dispatch) heard(o *Outcome) {
	switch {
	case o.Skip != Started:
	case o.Burdens:
		d.called.failed++
	case o.Ack:
		d.called.well, d.called.inTx = d.called.well+1, d.called.inTx+1
	case o.succeeds():
		d.called.well++
	}
}

// Ran takes the outcome of the next item of a dispatch that is over.
func (f *Flow) Ran(now time.Duration, d *Dispatch, o Outcome) {
	it := d.Items[d.applied]
	d.applied++
	d.heard(&o)
	it.dispatch = nil
	if o.Skip == Started {
		f.pace.done++
		if it.sequence != nil {
			it.sequence.narrow = o.Narrow
		}
	}
	switch {
	case it.phase != running:
	case o.Skip != Started:
		f.notStarted(now, it, o.Skip)
	default:
		f.apply(now, it, o)
	}
}

// notStarted is an item whose turn came when it was not to run any more.
func (f *Flow) notStarted(now time.Duration, it *Item, why Skip) {
	switch {
	case it.sess.lost:
		f.giveBack(it)
	case why == NotAlive || it.dropped || f.draining || f.closed:
		it.dropped = true
		f.release(it)
	case why == LeaseOver: // the ledger is asked again
		f.uncertain(now, it)
	default:
		f.release(it)
	}
}

func (f *Flow) apply(now time.Duration, it *Item, o Outcome) {
	switch {
	case o.Again:
		f.alone(it)
	case o.Ack:
		f.judge(now, it, true)
		f.finish(it, Verdict{Ack: true})
	case o.Ask:
		f.probing.again(it)
		f.uncertain(now, it)
	case o.succeeds():
		f.judge(now, it, true)
		f.succeed(it, o.More)
	case o.More.Kind == ledger.Fail:
		f.settle(now, it, o.More)
	default:
		if f.probing.again(it); o.Else != nil {
			it.more().instead = o.Else
		}
		f.settle(now, it, o.More)
	}
}

// alone makes an item of a spoilt batch ready to run again at once, by itself.
func (f *Flow) alone(it *Item) {
	it.single = true
	f.s.setPhase(it, claimed)
	switch {
	case it.sess.lost:
		f.giveBack(it)
	case it.dropped || f.draining || f.closed, f.cfg.Park && f.paused, f.heldBack(it):
		f.release(it)
	default:
		f.s.readyQ.push(it)
	}
}

// Single has an item run alone from now on.
func (it *Item) Single() { it.single = true }

// uncertain is an item of which only the ledger knows whether it is ours, or done. It is asked for again, also when the broker
// has its copy back: otherwise it could stay ours for as long as this worker lives, and nobody would run it.
func (f *Flow) uncertain(now time.Duration, it *Item) {
	if f.draining {
		f.finish(it, Verdict{}) // leaving frees it
		return
	}
	if it.dropped {
		f.tell(it, Verdict{Held: true})
	}
	it.maybe = !it.sess.lost
	it.asks++
	f.s.hold(it, now+AskAgain(0, int(it.asks), f.chance.draw()))
}

// freeSlots says how many messages handlers could begin with now, beside those that are on their way to them.
func (f *Flow) freeSlots() int {
	if !f.cfg.Batch {
		return f.slots() - f.s.taken
	}
	free, coming := f.slots(), f.s.taken
	for _, d := range f.dispatches {
		if !d.solo {
			free, coming = free-1, coming-d.limit
		}
	}
	return free*f.cfg.BatchSize - coming
}

// Dispatches are all that are not freed, in no order that means anything but the same in each run. The slice is a copy.
func (f *Flow) Dispatches() []*Dispatch { return slices.Clone(f.dispatches) }
