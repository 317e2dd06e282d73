package sim

import (
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// chunk is a dispatch in the hands of a simulated goroutine.
type chunk struct {
	p        *process
	d        *flow.Dispatch
	next     int // the next item to begin
	back     bool
	outcomes []flow.Outcome
	plain    bool
	born     time.Duration
	seen     int
	off      map[int]bool
	running  *running
	then     func()
}

// dispatch gives idle goroutines what may run.
func (p *process) dispatch() bool {
	if p.idle == 0 {
		return false
	}
	d, part := p.flow.Next(p.now, p.idle)
	if part.Range != nil {
		items := part.Range.Records.Expand(part.From, part.To)
		part.Prepare(items)
		if d = p.flow.Begin(p.now, part, items); d == nil {
			return true
		}
	}
	if d == nil {
		return false
	}
	p.idle--
	p.begin(d, func() { p.idle++ })
	return true
}

func (p *process) begin(d *flow.Dispatch, then func()) {
	c := &chunk{p: p, d: d, born: p.now, plain: true, seen: -1, off: map[int]bool{}, then: then}
	p.chunks[d] = c
	p.after(0, c.run)
}

// recall takes back what has not begun.
func (c *chunk) recall(p *process) {
	if !c.back {
		c.back = true
		p.flow.Recalled(c.d, c.next)
	}
}

func (c *chunk) callOff(at int) { c.off[at] = true }

// run begins the next item; it ends the dispatch where there is none.
func (c *chunk) run() {
	p := c.p
	if c.back || c.next == len(c.d.Items) {
		c.end()
		return
	}
	at := c.next
	it := c.d.Items[at]
	c.next++
	sess := sessionOf(it.Session())
	switch {
	case c.off[at]:
		c.over(flow.Outcome{Skip: flow.CalledOff})
		return
	case p.now > sess.until:
		c.over(flow.Outcome{Skip: flow.LeaseOver})
		return
	}
	r, d := &running{p, sess}, of(it)
	c.running = r
	p.begins(p, r, d, it.Ticket().Token())
	p.mustFit(p)
	took := p.between(0, 20*time.Microsecond)
	if p.trouble(slow) {
		took = p.between(0, 3*time.Second)
	}
	poison := p.trouble(lethal)
	began := p.now
	var ends func()
	ends = func() {
		if left := began + took - p.now; left > 0 && !c.off[at] { // it heeds its context
			p.after(min(left, 5*time.Millisecond), ends)
			return
		}
		if poison {
			p.kill("message " + d.String() + " kills it")
			return
		}
		c.ended(it, r, d, c.off[at] && p.now < began+took)
	}
	p.after(min(took, 5*time.Millisecond), ends)
}

// ended decides how a handler ends.
func (c *chunk) ended(it *flow.Item, r *running, d delivery, calledOff bool) {
	p, o := c.p, flow.Outcome{}
	switch {
	case calledOff:
		o.More = &ledger.Settlement{Kind: ledger.Release}
	case p.trouble(failing):
		o.More = &ledger.Settlement{Kind: ledger.Fail, Dead: archive(it, it.Attempt())}
	case p.trouble(retried):
		o.More = &ledger.Settlement{
			Kind: ledger.Release, Count: true, After: p.between(0, time.Second),
			Failure: ledger.AttemptError{Attempt: it.Attempt(), Kind: ledger.KindError, Error: "sim"},
		}
	}
	c.running = nil
	p.ends(r, d, o.More == nil || o.More.Kind == ledger.Fail)
	c.over(o)
}

// over takes the outcome of an item, and goes on.
func (c *chunk) over(o flow.Outcome) {
	c.outcomes = append(c.outcomes, o)
	if o.Skip != flow.Started || o.More != nil {
		c.plain = false
		if c.d.Ordered() || o.More != nil && o.More.Kind == ledger.Fail {
			c.end()
			return
		}
	}
	c.p.after(0, c.run)
}

// end reports the dispatch.
func (c *chunk) end() {
	p := c.p
	whole := p.flow.EndedRange(p.now, c.d, c.plain && c.next == len(c.d.Items))
	if !whole {
		c.recall(p)
		p.flow.Took(c.d, max(p.now-c.born, 1), false)
		c.apply(c.d.Limit())
	} else {
		p.flow.Took(c.d, max(p.now-c.born, 1), true)
	}
	delete(p.chunks, c.d)
	p.flow.Free(c.d)
	c.then()
}

// apply tells the flow of what is over before item n.
func (c *chunk) apply(n int) {
	for i := c.d.Applied(); i < min(n, len(c.outcomes)); i++ {
		c.p.flow.Ran(c.p.now, c.d, c.outcomes[i])
	}
}

// rescue gives to others what stands behind a handler that takes long.
func (p *process) rescue() {
	p.rescuing = false
	for _, d := range p.flow.Dispatches() {
		c := p.chunks[d]
		if c == nil {
			continue
		}
		if c.next == c.seen && d.Divisible() && !c.back {
			p.flow.Stuck(p.now, d)
			c.recall(p)
			c.apply(d.Limit() - 1)
		}
		c.seen = c.next
	}
	p.flow.Rescue(p.now, p.idle)
}
