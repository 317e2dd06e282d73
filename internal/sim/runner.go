package sim

import (
	"fmt"
	"time"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/internal/response"
	"github.com/ackledger/ackledger/ledger"
)

// runner is a process that does requests once: what package idempotency does around the core. Of equal calls one leads and asks the
// ledger, and the others wait for what it learns.
type runner struct {
	*process
	desk    *desk
	flights map[flightKey]*flight
	running map[message]int // bodies of those whose function runs
}

var _ source = (*runner)(nil)

// flightKey is what makes two calls one.
type flightKey struct {
	message
	body int
}

// flight is a request that a call leads.
type flight struct {
	began   time.Duration
	waiting []*call
}

// call is one call of a caller: idempotency.Runner.Do.
type call struct {
	by       *caller
	of       *request
	nth      int // of the request's
	in       *runner
	asked    time.Duration
	flight   *flight // that it leads or waits for; nil: none
	leads    bool
	taken    bool          // it was offered to the core
	letGo    time.Duration // when the core let go of it; 0: it has it, if it was offered
	answered bool          // the ledger has said something
	said     response.Call // what that was

	begun, over, returned bool // its function has begun, and ended; its caller has been told
	committed             bool
	err                   error  // its function's
	answer                []byte // its function's, and what is stored of its failure
}

// callWait is how long a call waits until its function begins (idempotency.Options.Wait).
const callWait = 3 * time.Second

func (r *runner) poll()               {}
func (r *runner) more() bool          { return false }
func (r *runner) drained(then func()) { then() }

// has says whether somebody waits for a call, and it has not begun before.
func (r *runner) has(d delivery) bool {
	c := d.of.(*call)
	return !c.begun && !c.returned
}

func (r *runner) finished(d delivery, v flow.Verdict) {
	c := d.of.(*call)
	if !v.Held { // else it may be ours, and the core goes on asking
		c.letGo = r.now
	}
	if !c.returned {
		c.returns(c.outcome(v))
	}
}

// mayDo says whether a request may be asked for: engine.Engine.Open.
func (r *runner) mayDo() bool { return r.flow.MayStart() || r.flow.Hungry(r.now) }

// do is a call of a caller.
func (r *runner) do(k *caller) {
	c := &call{by: k, of: k.of, nth: len(k.of.calls), in: r, asked: r.now}
	c.of.calls = append(c.of.calls, c)
	r.note(r.process, "is asked for", c.of.message, int64(k.body))
	if !r.mayDo() {
		c.returns(gotUnavailable, nil)
		return
	}
	r.after(callWait, c.limit)
	if r.trouble(revocation) {
		r.after(r.between(0, callWait), c.giveUp)
	}
	c.join()
}

// name is the call's delivery: each has its own.
func (c *call) name() []byte { return fmt.Appendf(nil, "call %d of %s", c.nth, c.of.key.ID) }

func (c *call) key() flightKey { return flightKey{c.of.message, c.by.body} }

// join leads, or waits for who does.
func (c *call) join() {
	r := c.in
	x := r.flights[c.key()]
	switch {
	case x == nil:
		c.lead()
	case r.cfg.Refuse:
		c.returns(gotInProgress, nil)
	default:
		c.flight = x
		x.waiting = append(x.waiting, c)
	}
}

// lead offers the call to the core, which asks the ledger.
func (c *call) lead() {
	r := c.in
	c.leads, c.flight = true, &flight{began: r.now}
	r.flights[c.key()] = c.flight
	if c.meetsOther() {
		c.returns(gotMismatch, nil)
		return
	}
	it := r.item(delivery{message: c.of.message, key: c.of.key, first: true, of: c}, "")
	it.Fingerprint, it.NoWait = c.of.bodies[c.by.body], r.cfg.Refuse
	c.taken = true
	r.offer(it)
}

// meetsOther says whether the request runs here with another body.
func (c *call) meetsOther() bool {
	body, is := c.in.running[c.of.message]
	return is && body != c.by.body
}

// land ends a flight: those who waited for it get what it learned, if that is kept, and else ask themselves.
func (r *runner) land(c *call, what reply, answer []byte) {
	delete(r.flights, c.key())
	if body, is := r.running[c.of.message]; is && body == c.by.body {
		delete(r.running, c.of.message)
	}
	kept := what == gotAnswer || what == gotFailure && r.cfg.KeepFailed
	for _, o := range c.flight.waiting {
		r.after(r.between(0, time.Millisecond), func() {
			switch {
			case o.returned:
			case kept:
				o.returns(what, answer)
			default:
				o.join()
			}
		})
	}
}

// limit is the end of the time that the call may wait to begin.
func (c *call) limit() {
	if c.begun || c.returned {
		return
	}
	what := gotWaited
	switch {
	case c.said.Differs(), c.leads && c.meetsOther():
		what = gotMismatch
	case !c.in.mayDo():
		what = gotUnavailable
	}
	c.returns(what, nil)
}

// giveUp is the end of the caller's context.
func (c *call) giveUp() {
	if !c.begun && !c.returned {
		c.returns(gotGone, nil)
	}
}

// returns tells the caller.
func (c *call) returns(what reply, answer []byte) {
	r := c.in
	c.returned = true
	r.report.Told[what]++
	r.note(r.process, "tells of "+what.String()+":", c.of.message, int64(c.by.body))
	c.mustBeTrue(what, answer)
	if c.leads {
		r.land(c, what, answer)
	}
	c.by.hears(what)
}

// outcome is what a call's end means.
func (c *call) outcome(v flow.Verdict) (reply, []byte) {
	what := response.Unknown // a drain's time was up
	switch {
	case !c.begun:
		what = c.said.NotRun(v.Ack, c.meetsOther(), c.in.cfg.Refuse && c.in.mayDo())
	case c.over:
		what = c.said.Ran(v.Ack, c.committed, c.err != nil)
	}
	switch what {
	case response.Answer:
		return gotAnswer, c.answer
	case response.Failure:
		return gotFailure, c.answer
	case response.Stored:
		if o := &c.said.Heard.Outcome; o.State == ledger.Failed {
			return gotFailure, o.Result
		}
		return gotAnswer, c.said.Heard.Outcome.Result
	case response.Crashed:
		return gotFailure, nil
	}
	return replyOf[what], nil
}

// replyOf is what of a call's ends tells no more than that.
var replyOf = map[response.Response]reply{
	response.Error: gotError, response.Unknown: gotUnknown, response.Unavailable: gotUnavailable, response.InProgress: gotInProgress, response.Mismatch: gotMismatch,
}

// tellCalls tells calls what the ledger says of their requests.
func (p *process) tellCalls(items []*flow.Item, answers []ledger.Claim) {
	for i, it := range items {
		c, is := of(it).of.(*call)
		if !is {
			continue
		}
		c.answered = true
		c.said.Hear(&answers[i])
		if answers[i].Err != nil && !c.begun && !c.returned {
			c.returns(gotRefused, nil)
		}
	}
}

// begins notes that the call's function begins.
func (c *call) begins(r *running) {
	c.mustBeAwaited()
	c.begun = true
	c.in.running[c.of.message] = c.by.body
	c.answer = fmt.Appendf(nil, "%s of %s, token %d", c.of.message, c.in, r.ticket.Token())
}

// ends notes how the call's function has ended, and adds what is stored of that.
func (c *call) ends(e engine.Ended, o *flow.Outcome) {
	c.over, c.err, c.committed = true, e.Err, e.State == ledger.AttemptSucceeded
	if c.err == nil {
		c.of.made[string(c.answer)] = true
	} else if !c.committed {
		c.answer = fmt.Appendf(nil, "%s: %v", c.answer, c.err)
	}
	switch {
	case o.Ack || o.Ask || o.Again:
	case o.More == nil || o.More.Kind == ledger.Succeed:
		o.More = &ledger.Settlement{Kind: ledger.Succeed, Result: c.answer}
	case o.More.Kind == ledger.Fail:
		o.More.Result = c.answer
	default:
		o.More.After = min(o.More.After, runnerRest)
	}
}

// answers sets what is stored with the success that a transaction commits (idempotency.SetResult).
func (c *chunk) answers(a *ledger.Attempt) {
	for i, r := range c.running {
		if asked, is := of(r.it).of.(*call); is {
			if err := a.SetResultAt(i, asked.answer); err != nil {
				c.p.breaks(asked.of.message, "an answer can be set before the commit: %v", err)
			}
		}
	}
}
