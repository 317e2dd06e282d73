package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// chunk is a dispatch in the hands of a simulated goroutine.
type chunk struct {
	p        *process
	d        *flow.Dispatch
	part     flow.Part    // of a range; zero: of none
	like     []*flow.Item // like those of the range that the dispatch is part of
	next     int          // the next item to begin
	back     bool
	outcomes []flow.Outcome
	plain    bool
	born     time.Duration
	started  time.Duration // its handlers
	beside   bool          // the pool
	seen     int
	off      map[int]bool          // called off
	held     map[int]flow.LaneStep // what follows for those that were asked about
	running  []*running            // whose handler runs now
	steps    *stepping             // that it makes; nil: none
	then     func()
}

// running is a handler in a message.
type running struct {
	by    *process
	sess  *session
	it    *flow.Item
	at    int // in its chunk
	began time.Duration

	ticket  ledger.Ticket
	attempt int
}

// dispatch gives idle goroutines what may run.
func (p *process) dispatch() bool {
	if p.idle == 0 {
		return false
	}
	d, part := p.flow.Next(p.now, p.idle)
	if part.Range != nil {
		if d = p.flow.Begin(p.now, part); d == nil {
			return true
		}
	}
	if d == nil {
		return false
	}
	p.mustBeWithinLimit()
	p.idle--
	p.begin(d, part, func() { p.idle++ })
	return true
}

// begin has a dispatch run. Where handlers are admitted one at a time, it waits for its turn.
func (p *process) begin(d *flow.Dispatch, part flow.Part, then func()) {
	c := &chunk{p: p, d: d, part: part, born: p.now, plain: true, seen: -1, off: map[int]bool{}, then: then}
	if part.Range != nil {
		c.like = part.Range.Records.Expand(part.From, part.To)
	}
	d.Of = c
	p.report.Dispatches++
	p.chunks = append(p.chunks, c)
	p.mustFit(p, c)
	var turn time.Duration
	if p.cfg.LimitStarts && !c.item(0).Solo() {
		turn = p.between(0, 20*time.Millisecond)
	}
	p.after(turn, func() {
		c.started = p.now
		if p.cfg.LimitStarts {
			p.flow.Admitted(p.now, d)
		}
		c.run()
	})
}

// item is one of the chunk's; as long as its range is whole, one like it.
func (c *chunk) item(at int) *flow.Item {
	if len(c.d.Items) > 0 {
		return c.d.Items[at]
	}
	return c.like[at]
}

// claimed is the claim of one of the chunk's messages.
func (c *chunk) claimed(at int) (sess *session, t ledger.Ticket, attempt int) {
	if r := c.part.Range; r != nil {
		return sessionOf(r.Session()), ledger.NewTicket(c.item(at).Key.Sum(), r.Token()), 1
	}
	it := c.item(at)
	return sessionOf(it.Session()), it.Ticket(), it.Attempt()
}

// recall takes back what has not begun.
func (c *chunk) recall() {
	if !c.back {
		c.back = true
		c.p.flow.Recalled(c.d, c.next)
	}
}

func (c *chunk) callOff(at int) { c.off[at] = true }

// run begins the next item, or the whole of a batch; it ends the dispatch where there is none.
func (c *chunk) run() {
	if c.back || c.next == c.d.N {
		c.end()
		return
	}
	from := c.next
	if c.next++; c.d.Together {
		c.next = c.d.N
	}
	c.askLanes(from, func() { c.starts(from) })
}

// starts begins those of the items from one on that are to begin.
func (c *chunk) starts(from int) {
	for at := from; at < c.next; at++ {
		it := c.item(at)
		switch sess, ticket, attempt := c.claimed(at); {
		case of(it).redrive == nil && !it.Parked && !c.p.source.has(of(it)):
			c.outcomes = append(c.outcomes, flow.Outcome{Skip: flow.NotAlive})
		case c.off[at]:
			c.outcomes = append(c.outcomes, flow.Outcome{Skip: flow.CalledOff})
		case c.p.now > sess.until:
			c.outcomes = append(c.outcomes, flow.Outcome{Skip: flow.LeaseOver})
		case c.held[at] != flow.LaneRuns:
			c.outcomes = append(c.outcomes, c.heldBack(at))
			c.p.flow.Itemize(c.p.now, c.d)
		default:
			c.outcomes = append(c.outcomes, flow.Outcome{})
			c.running = append(c.running, &running{c.p, sess, it, at, c.p.now, ticket, attempt})
			continue
		}
		c.plain = false
	}
	if len(c.running) == 0 {
		c.over()
		return
	}
	for _, r := range c.running {
		c.p.begins(r)
	}
	c.handle()
}

// handle is the handler. It heeds its context, within 5 ms.
func (c *chunk) handle() {
	p := c.p
	took := p.between(p.cfg.Pace/2, 2*p.cfg.Pace)
	if p.trouble(slow) {
		took = p.between(0, 3*time.Second)
	}
	began := p.now
	if took > 2*stuckAfter {
		p.after(stuckAfter, func() { p.mustWaitForNobody(c, began) })
	}
	var ends func()
	ends = func() {
		cancelled := c.cancelled()
		if left := began + took - p.now; left > 0 && !cancelled {
			p.after(min(left, 5*time.Millisecond), ends)
			return
		}
		for _, r := range c.running {
			if d := of(r.it); p.marked(deadly, d.message) && (p.cfg.Steps == 0 || p.rnd.IntN(2) == 0) {
				p.kill("is killed by", d.message)
				return
			}
		}
		if cancelled && p.now < began+took {
			c.returns(true)
			return
		}
		c.outside()
	}
	p.after(min(took, 5*time.Millisecond), ends)
}

// cancelled says whether the handler's context has ended.
func (c *chunk) cancelled() bool {
	return slices.ContainsFunc(c.running, func(r *running) bool { return c.off[r.at] })
}

// returns is the end of a handler: by an error for all, by errors of some, or well. A transaction is committed if it went well.
func (c *chunk) returns(cancelled bool) {
	p, errs := c.p, make([]error, len(c.running))
	var whole engine.Ended
	spoilt := false
	for i, r := range c.running {
		switch {
		case cancelled:
			errs[i], whole.Cause = ledger.ErrLost, ledger.ErrLost
		case c.steps != nil && c.steps.errs[i] != nil:
			errs[i] = c.steps.errs[i]
		case p.marked(hopeless, of(r.it).message), p.trouble(retried):
			if errs[i] = errHandler; p.now%4 == 0 && !p.marked(hopeless, of(r.it).message) {
				errs[i] = consumer.Snooze(1 + p.now%time.Second) // drawn by nobody, so that worlds stay as they are
			}
			spoilt = spoilt || p.trouble(failing)
		case p.trouble(failing):
			errs[i] = consumer.Terminal(errHandler)
		}
	}
	bad := slices.ContainsFunc(errs, func(err error) bool { return err != nil })
	switch {
	case (spoilt || bad && p.cfg.InTx) && len(errs) > 1 && !cancelled:
		for _, r := range c.running {
			c.conclude(r, engine.Ended{}, true)
		}
		c.over()
	case p.cfg.InTx && !bad:
		c.commit()
	default:
		for i, r := range c.running {
			whole.Err, whole.Outage = errs[i], errors.Is(errs[i], errAway)
			c.conclude(r, whole, false)
		}
		c.over()
	}
}

// attempt is the handler's attempt: that of its steps, if it made some.
func (c *chunk) attempt() *ledger.Attempt {
	if c.steps != nil {
		return c.steps.attempt
	}
	sess := c.running[0].sess
	if c.p.cfg.Batch == 0 {
		return ledger.NewAttempt(sess.owner, c.running[0].ticket)
	}
	tickets := make([]ledger.Ticket, len(c.running))
	for i, r := range c.running {
		tickets[i] = r.ticket
	}
	return ledger.NewBatchAttempt(sess.owner, tickets)
}

// commit commits the handler's effects and the success of its messages as one.
func (c *chunk) commit() {
	p, sess, running, attempt := c.p, c.running[0].sess, slices.Clone(c.running), c.attempt()
	c.answers(attempt)
	p.fence("a commit", p.strays(sess, 4*timeout, func() error {
		err := p.inTx(ledger.WithAttempt(context.Background(), attempt))
		if err == nil {
			for i, r := range running {
				p.mustCommit(sess, of(r.it), r.ticket, attempt.ResultAt(i))
				p.takesEffect(r, attempt.ResultAt(i))
			}
		}
		return err
	}), func(err error) {
		e := engine.Ended{State: ledger.AttemptSucceeded}
		switch {
		case err == nil:
		case ledger.IsLost(err):
			e = engine.Ended{State: ledger.AttemptLost, Err: err}
		case ledger.Unknown(err):
			e = engine.Ended{State: ledger.AttemptUnknown, Err: err}
		default:
			p.reachable(false)
			e = engine.Ended{Err: err, Outage: true}
		}
		for _, r := range c.running {
			c.conclude(r, e, e.State == ledger.AttemptLost && len(c.running) > 1)
		}
		c.over()
	})
}

// conclude decides what follows from the end of a handler for one of its messages. Of a batch that came to nothing each runs again by
// itself.
func (c *chunk) conclude(r *running, e engine.Ended, again bool) {
	p, o, d := c.p, &c.outcomes[r.at], of(r.it)
	e.Spared = p.now < p.flow.Excused() && p.now < p.cfg.Calm // after it what is left may fail for good alone, for an hour
	next := engine.Judge(attempts, e, r.attempt)
	o.Burdens = next.Burdens || again
	switch {
	case again:
		o.Again = true
	case next.Ack:
		o.Ack = true
	case next.Ask:
		o.Ask = true
	case next.Settle == ledger.Fail:
		kind := ledger.KindTerminal
		if !consumer.IsTerminal(e.Err) {
			kind = ledger.KindExhausted
		}
		o.More = &ledger.Settlement{Kind: ledger.Fail, Dead: r.by.archive(r.it, kind, r.attempt)}
	case next.Settle == ledger.Release:
		o.More = &ledger.Settlement{Kind: ledger.Release, Count: next.Count}
		if _, put := consumer.SnoozeDelay(e.Err); put {
			o.More.After = next.After
		} else if next.Burdens {
			o.More.After = p.between(0, time.Second)
		}
		if next.Count {
			o.More.Failure = ledger.AttemptError{Attempt: r.attempt, Kind: ledger.KindError, Error: "sim"}
		}
		c.parkOne(r, o)
	case p.trouble(resulting) && !p.cfg.InTx:
		o.More = &ledger.Settlement{Kind: ledger.Succeed, Result: []byte(d.String())}
	}
	if asked, is := d.of.(*call); is {
		asked.ends(e, o)
	}
	if plain := *o == (flow.Outcome{}) || o.Ack; !plain {
		c.plain = false
		p.flow.Itemize(p.now, c.d)
		r.it = c.item(r.at)
	}
	p.ends(r, o)
}

// over ends the handler, and goes on with the next message.
func (c *chunk) over() {
	c.running, c.steps = c.running[:0], nil
	last := c.outcomes[len(c.outcomes)-1]
	if !c.plain && (c.d.Ordered() || last.More != nil && last.More.Kind == ledger.Fail) {
		c.end()
		return
	}
	c.p.after(0, c.run)
}

// end reports the dispatch.
func (c *chunk) end() {
	p := c.p
	whole := p.flow.EndedRange(p.now, c.d, c.plain && c.next == c.d.N)
	if !whole {
		c.recall()
	}
	p.flow.Took(c.d, max(p.now-c.born, 1), whole)
	if !whole {
		c.apply(c.d.Limit())
	}
	p.flow.Measured(p.now, c.d, max(p.now-c.started, 1), whole)
	p.chunks = slices.DeleteFunc(p.chunks, func(o *chunk) bool { return o == c })
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
	for _, c := range slices.Clone(p.chunks) {
		if c.next == c.seen && c.d.Divisible() && !c.back {
			p.flow.Stuck(p.now, c.d)
			c.recall()
			c.apply(c.d.Limit() - 1)
		}
		c.seen = c.next
	}
	p.flow.Rescue(p.now, p.idle)
}
