package engine

import (
	"math"
	"sync/atomic"
	"time"
)

// Bounds of what a goroutine of the pool takes at once. Taking costs the engine's lock, so fast handlers take many; what
// they take waits for each other, so a chunk is worth a short time of work, and keeps few bytes alive.
const (
	chunkTime  = 200 * time.Microsecond
	chunkItems = 69        // their runs are just small enough for the allocator not to make a span of memory of its own for them
	chunkBytes = 128 << 10 // of Item.Size
	// spread is how slow a handler has to be for its messages to go to as many goroutines as are idle.
	spread = 10 * time.Microsecond
	// batchSpread is the same of one call of a batch handler.
	batchSpread = 20 * time.Millisecond
	// rescueAfter is how long a chunk may not move until what it has not begun is given to others.
	rescueAfter = time.Millisecond
)

// takenBack is an index past all runs: the rest of the chunk is not its goroutine's any more.
const takenBack = math.MaxInt32

// chunk is what a goroutine of the pool takes at once: runs that begin one after the other, or, for a batch handler,
// together. Its items are in phase running from the moment they are taken; those that have not begun can be taken back.
type chunk struct {
	runs     []run
	stretch  *Stretch // that the runs are of, as long as it is whole; guarded by the engine's lock
	items    []*Item  // of a stretch's
	spare    []*Item  // items, once nobody has them any more
	ordered  bool     // of a stretch, one after the other: what comes after a run that did not go well is not begun
	together bool
	piece    bool          // of a stretch, and together
	solo     bool          // a suspect, beside the pool
	admitted bool          // by the rate and the shared limiter, before it was claimed
	born     time.Duration // since Engine.born
	done     time.Duration // when its goroutine had nothing left to begin
	next     atomic.Int64  // index of the next run to begin: its goroutine counts up, taking back sets it to takenBack
	at       atomic.Int64  // when the newest run began, since Engine.born

	// Guarded by the engine's lock.
	limit   int   // runs from here on were taken back
	applied int   // runs before are over, and what follows from them is carried out
	seen    int64 // next at the rescuer's last look; -1: it has not looked
}

// newChunk takes the items over. The engine's lock is held.
func (e *Engine) newChunk(items []*Item, together bool, st *Stretch) *chunk {
	c := &chunk{
		stretch: st, ordered: st != nil && !together, piece: st != nil && together,
		runs: make([]run, len(items)), limit: len(items), together: together, solo: items[0].solo,
		born: time.Since(e.born), seen: -1,
	}
	for i, it := range items {
		r := &c.runs[i]
		r.e, r.item, r.lead, it.run = e, it, r, r
		if together {
			r.lead = &c.runs[0]
		}
		if it.phase != running {
			e.s.setPhase(it, running)
		}
	}
	if c.piece {
		e.pieces++
	}
	if c.divisible() {
		e.divisible++
	}
	if c.piece || c.divisible() {
		e.toRescue.Signal()
	}
	c.at.Store(int64(c.born))
	e.chunks[c] = struct{}{}
	return c
}

func (c *chunk) divisible() bool { return c.ordered || len(c.runs) > 1 && !c.together }

// begin returns the next run to begin; nil: there is none.
func (c *chunk) begin() *run {
	if i := c.next.Add(1) - 1; i < int64(len(c.runs)) {
		return &c.runs[i]
	}
	return nil
}

// gone says that nothing is left to begin.
func (c *chunk) gone() bool { return c != nil && c.next.Load() >= takenBack }

// beginAll begins all runs together, unless they were taken back.
func (c *chunk) beginAll() bool { return c.next.CompareAndSwap(0, takenBack) }

// begun says how many runs have begun. The engine's lock is held.
func (c *chunk) begun() int { return min(int(c.next.Load()), c.limit) }

// takeBack makes what has not begun claimable by other goroutines. The engine's lock is held.
func (e *Engine) takeBack(c *chunk) {
	if c.stretch != nil {
		e.split(c.stretch.log)
	}
	begun := c.next.Swap(takenBack)
	if begun >= takenBack {
		return
	}
	if c.divisible() {
		e.divisible--
	}
	c.limit = min(int(begun), len(c.runs))
	for i := len(c.runs) - 1; i >= c.limit; i-- {
		it := c.runs[i].item
		it.run, c.runs[i].item = nil, nil
		e.s.setPhase(it, claimed)
		switch {
		case it.solo, e.opt.Park, e.brake.breaker.open, e.purse.budget.stops: // it has its place for suspects no more; what does not begin is nobody's
			e.release(it)
		case it.isHead():
			e.s.readyQ.pushFront(it)
		}
	}
}

// takeBackAll leaves in handlers only what has begun: from now on everything else is where it can be released.
func (e *Engine) takeBackAll() {
	e.splitAll()
	for c := range e.chunks {
		e.takeBack(c)
	}
}

// eachRun calls f for the runs that have begun and are not known to be over. The engine's lock is held.
func (e *Engine) eachRun(f func(c *chunk, r *run)) {
	for c := range e.chunks {
		for i := c.applied; i < c.begun(); i++ {
			f(c, &c.runs[i])
		}
	}
}

// rescuer gives to others what stands behind a handler that takes long, and settles what is over before it.
func (e *Engine) rescuer() {
	for {
		e.mu.Lock()
		for e.divisible+e.pieces == 0 && e.s.stretchQ.len() == 0 && !e.closed {
			e.toRescue.Wait()
		}
		if e.closed {
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
		e.nap(rescueAfter)
		e.mu.Lock()
		for c := range e.chunks {
			now := c.next.Load()
			if now == c.seen && c.divisible() {
				e.takeBack(c)
				e.carryOut(c, c.limit-1)
			}
			c.seen = now
		}
		e.relieve()
		e.splitBlocked(time.Now())
		e.unlock()
	}
}

// take waits for messages that may start; nil when the engine closes. What ended with the chunk before is carried out
// under the same lock.
func (e *Engine) take(before *chunk) *chunk {
	e.mu.Lock()
	var spare []*Item
	if before != nil {
		e.ended(before)
		spare = before.spare
	}
	for {
		if e.closed {
			e.unlock()
			return nil
		}
		if e.mayStart() {
			whole := e.s.stretchReady.len() > 0
			if e.turns.run.items() || !whole {
				if items := e.takeReady(); len(items) > 0 {
					c := e.newChunk(items, e.batch != nil, nil)
					clear(items)
					e.unlock()
					return c
				}
			}
			if p := e.s.popPiece(e.chunkSize(), e.batch != nil); p.of != nil {
				before = nil
				e.unlock()
				if c := e.takePiece(p, spare); c != nil {
					return c
				}
				spare = nil
				e.mu.Lock()
				continue
			}
			if whole && e.s.readyQ.len() > 0 { // what was listed has been split
				continue
			}
		}
		if before != nil { // others wait for what ended
			before = nil
			e.unlock()
			e.mu.Lock()
			continue
		}
		e.idle++
		e.toRun.Wait()
		e.idle--
		e.woken = max(e.woken-1, 0)
	}
}

// takeReady takes items that may start now. Each is running from then on: one that lost its place and got it back is in
// the queue twice.
func (e *Engine) takeReady() []*Item {
	n, bytes := e.chunkSize(), int64(0)
	items := e.scratch[:0]
	for len(items) < n && e.s.readyQ.len() > 0 && (bytes < chunkBytes || e.batch != nil) {
		it := e.s.readyQ.pop()
		if it.phase != claimed || !it.isHead() {
			continue
		}
		if it.single && len(items) > 0 { // what spoilt a batch runs alone
			e.s.readyQ.pushFront(it)
			break
		}
		e.s.setPhase(it, running)
		items = append(items, it)
		bytes += it.Size
		if it.single {
			break
		}
	}
	e.scratch = items
	return items
}

// quick is how long a call of the handler may take for stretches to pay.
func (e *Engine) quick() time.Duration {
	if e.batch != nil {
		return batchSpread
	}
	return spread
}

// chunkSize says how many messages to take at once.
func (e *Engine) chunkSize() int {
	switch {
	case e.batch != nil:
		return e.size
	case e.limited || e.cost <= 0:
		return 1
	}
	n := min(int(chunkTime/e.cost), chunkItems)
	if e.cost > spread {
		n = min(n, e.s.readyQ.len()/(e.idle+1))
	}
	return max(n, 1)
}

// ended carries out what is left of a chunk that its goroutine is done with. The engine's lock is held.
func (e *Engine) ended(c *chunk) {
	whole := e.endedStretch(c)
	if !whole {
		e.takeBack(c)
	}
	if c.piece {
		e.pieces--
	}
	if n := c.limit; n > 0 {
		calls := n
		if c.together {
			calls = 1
		}
		mean := max((c.done-c.born)/time.Duration(calls), 1)
		if e.cost == 0 {
			e.cost = mean
		}
		if whole { // a stretch that pauses says that the system does
			mean = min(mean, 8*e.cost)
		}
		e.cost += (mean - e.cost) / 4
	}
	e.carryOut(c, c.limit)
	delete(e.chunks, c)
	e.improved()
}

// carryOut does what follows from the runs before n, which are over. The engine's lock is held.
func (e *Engine) carryOut(c *chunk, n int) {
	now := time.Now()
	for ; c.applied < n; c.applied++ {
		r := &c.runs[c.applied]
		it := r.item
		it.run = nil
		if r.skip == started {
			e.pace.done++
		}
		switch {
		case it.phase != running:
		case r.skip != started:
			e.notStarted(r, now)
		default:
			e.apply(r, now)
		}
	}
}

// notStarted is an item whose turn came when it was not to run any more.
func (e *Engine) notStarted(r *run, now time.Time) {
	it := r.item
	switch {
	case it.sess.lost:
		e.giveBack(it)
	case r.skip == notAlive || it.dropped || e.draining || e.closed:
		it.dropped = true
		e.release(it)
	case r.skip == leaseOver: // the ledger is asked again
		e.uncertain(it, now)
	default:
		e.release(it)
	}
}
