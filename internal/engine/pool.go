package engine

import (
	"sync"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/flow"
)

// rescueAfter is how long a chunk may not move until what it has not begun is given to others.
const rescueAfter = time.Millisecond

// pool runs handlers in goroutines: as many as Options.Concurrency, and those of apartRunner beside them.
type pool struct {
	*kernel
	lease      *lease
	admission  *admission
	handlers   *handlers
	chunks     map[*chunk]struct{} // what goroutines have taken; the kernel's lock guards it
	goroutines sync.WaitGroup
}

// loop runs handlers, one after the other. A handler that ends its goroutine (runtime.Goexit) is replaced.
func (p *pool) loop() {
	var c *chunk
	defer func() {
		if c != nil {
			p.close(c)
			p.goroutines.Go(p.loop)
		}
	}()
	for c = p.take(nil); c != nil; {
		p.run(c)
		before := c
		c = nil // an idle goroutine keeps no message in memory
		c = p.take(before)
	}
}

// run runs handlers, within the limits that are shared.
func (p *pool) run(c *chunk) {
	if p.admission.limited {
		if !c.admitted && p.admission.acquire(c) != nil {
			return // the drain began, or the messages were taken back
		}
		defer p.admission.limiter.Release()
	}
	if c.admittedAt = c.taken; p.admission.measured {
		p.do(func(f *flow.Flow, now time.Duration) {
			f.Admitted(now, c.dispatch)
			c.admittedAt = now
		})
	}
	p.handlers.runChunk(c)
	c.done = p.now()
}

// take waits for messages that may start; nil when the engine closes. What ended with the chunk before is carried out
// under the same lock.
func (p *pool) take(before *chunk) *chunk {
	p.mu.Lock()
	if before != nil {
		p.ended(before, p.now())
	}
	for {
		if p.flow.Closed() {
			p.unlock()
			return nil
		}
		now := p.now()
		d, part := p.flow.Next(now, p.idle)
		switch {
		case d != nil:
			c := p.register(d, now)
			p.unlock()
			return c
		case part.Range != nil:
			before = nil
			p.unlock()
			if c := p.takePart(part); c != nil {
				return c
			}
			p.mu.Lock()
			continue
		case before != nil || p.flow.Pending(): // others wait for what ended
			before = nil
			p.unlock()
			p.mu.Lock()
			continue
		}
		p.idle++
		p.wait.run.Wait()
		p.idle--
		p.woken = max(p.woken-1, 0)
	}
}

// takePart begins records of a stretch; nil: it was expanded meanwhile. No lock is held while their messages are made.
func (p *pool) takePart(part flow.Part) *chunk {
	c := partChunk(&p.handlers.calling, part)
	p.mu.Lock()
	now := p.now()
	d := p.flow.Begin(now, part)
	if d == nil {
		p.unlock()
		return nil
	}
	p.takes(c, d, now)
	p.wait.rescue.Signal()
	p.mu.Unlock()
	return c
}

// register makes a chunk of a dispatch of items. The kernel's lock is held.
func (p *pool) register(d *flow.Dispatch, now time.Duration) *chunk {
	c := newChunk(&p.handlers.calling, make([]consumer.Message, d.N))
	p.takes(c, d, now)
	return c
}

// takes has a chunk take a dispatch over. The kernel's lock is held.
func (p *pool) takes(c *chunk, d *flow.Dispatch, now time.Duration) {
	c.takes(d, now)
	p.chunks[c] = struct{}{}
}

// close carries out what is left of a chunk that is not followed by another.
func (p *pool) close(c *chunk) {
	p.mu.Lock()
	c.done = p.now()
	p.ended(c, c.done)
	p.unlock()
}

// ended carries out what is left of a chunk that its goroutine is done with. The kernel's lock is held.
func (p *pool) ended(c *chunk, now time.Duration) {
	whole := p.flow.EndedRange(now, c.dispatch, c.plain())
	if whole {
		c.next.Store(takenBack)
	} else {
		c.recall(p.flow)
	}
	p.flow.Took(c.dispatch, c.done-c.taken, whole)
	p.apply(c, c.dispatch.Limit(), now)
	p.flow.Measured(now, c.dispatch, c.done-c.admittedAt, whole)
	p.excused.Store(int64(p.flow.Excused()))
	delete(p.chunks, c)
	p.flow.Free(c.dispatch)
}

// apply tells the flow of the runs before n, which are over. The kernel's lock is held.
func (p *pool) apply(c *chunk, n int, now time.Duration) {
	for i := c.dispatch.Applied(); i < n; i++ {
		r := &c.runs[i]
		if r.retries() {
			p.tel.retried()
		}
		p.flow.Ran(now, c.dispatch, r.outcome())
	}
}

// rescue gives to others what stands behind a handler that takes long, and has settled what is over before it.
func (p *pool) rescue() {
	for p.await(p.wait.rescue, func() bool { return !p.flow.Closed() && p.flow.Watched() }) {
		p.lease.nap(rescueAfter)
		p.mu.Lock()
		for c := range p.chunks {
			next := c.next.Load()
			if c.still++; next != c.seen {
				c.still = 0
			}
			if c.still >= c.dispatch.Patience() && c.dispatch.Divisible() && !c.gone() {
				p.flow.Stuck(p.now(), c.dispatch)
				c.recall(p.flow)
				p.apply(c, c.dispatch.Limit()-1, p.now())
			}
			c.seen = next
		}
		p.flow.Rescue(p.now(), p.idle)
		p.unlock()
	}
}

// eachRun calls do for the runs that have begun and are not known to be over. The kernel's lock is held.
func (p *pool) eachRun(do func(*chunk, *run)) {
	for c := range p.chunks {
		for i := c.dispatch.Applied(); i < c.begun(); i++ {
			do(c, &c.runs[i])
		}
	}
}
