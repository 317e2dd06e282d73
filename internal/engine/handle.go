package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/killpoint"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// poolLoop runs handlers, one after the other. A handler that ends its goroutine (runtime.Goexit) is replaced.
func (e *Engine) poolLoop() {
	var c *chunk
	defer func() {
		if c != nil {
			e.close(c)
			e.pool.Go(e.poolLoop)
		}
	}()
	for c = e.take(nil); c != nil; {
		e.runChunk(c)
		before := c
		c = nil // an idle goroutine keeps no message in memory
		c = e.take(before)
	}
}

// close carries out what is left of a chunk that is not followed by another.
func (e *Engine) close(c *chunk) {
	e.mu.Lock()
	c.done = time.Since(e.born)
	e.ended(c)
	e.unlock()
}

// runChunk runs handlers, within the limits that are shared.
func (e *Engine) runChunk(c *chunk) {
	if e.limited {
		if !c.admitted && e.acquire(c) != nil {
			return // the drain began, or the messages were taken back
		}
		defer e.opt.Limiter.Release()
	}
	if c.together {
		if c.beginAll() {
			e.runBatch(c)
		}
	} else {
		since := time.Since(e.born)
		for r := c.begin(); r != nil; r = c.begin() {
			if e.mayBegin(c, r, since) {
				e.execute(r)
			}
			since = r.after()
			if !r.plain() && (c.ordered || r.finallyFailed()) {
				break // those behind it may have to wait for it, or for the breaker
			}
		}
	}
	c.done = time.Since(e.born)
}

// errTakenBack says that there is nothing left to begin.
var errTakenBack = errors.New("engine: taken back")

// acquire waits for the rate and for the shared limiter, in that order: who waits for the rate keeps no other worker's
// handler from the limiter. One goroutine at a time does both, so that no turns of the rate pile up before the limiter
// and then start at once. A chunk that was taken back meanwhile gives its turn of the rate back: those that come after a
// pause, a rebalance or an outage would else wait behind as many turns as there are handlers. A nil chunk has not been
// claimed yet.
func (e *Engine) acquire(c *chunk) error {
	if e.rate == nil {
		return e.opt.Limiter.Acquire(e.starts)
	}
	if err := e.turn.Acquire(e.starts); err != nil {
		return err
	}
	defer e.turn.Release()
	if c.gone() {
		return errTakenBack
	}
	if err := e.rate.Wait(e.starts); err != nil {
		return err
	}
	if c.gone() {
		e.turnBack()
		return errTakenBack
	}
	if err := e.opt.Limiter.Acquire(e.starts); err != nil {
		return err
	}
	if c.gone() {
		e.notAdmitted()
		return errTakenBack
	}
	return nil
}

// notAdmitted gives back what acquire gave for something that does not begin.
func (e *Engine) notAdmitted() {
	if e.limited {
		e.opt.Limiter.Release()
		e.turnBack()
	}
}

// turnBack gives a turn of the rate back: the bucket holds it for who comes next.
func (e *Engine) turnBack() {
	if e.rate != nil {
		e.rate.AllowN(time.Now(), -1)
	}
}

// mayBegin says whether a run starts its handler, now, since Engine.born. What was true when it was taken may not be any
// more: the process may have been frozen since.
func (e *Engine) mayBegin(c *chunk, r *run, now time.Duration) bool {
	alive := true
	if r.item.Alive != nil {
		alive, now = r.item.Alive(r.item), time.Since(e.born)
	}
	c.at.Store(int64(now))
	switch {
	case !alive:
		r.skip = notAlive
	case r.lead.off.Load():
		r.skip = calledOff
	case now > r.item.sess.lasts():
		r.skip = leaseOver
	default:
		r.prepare(now)
		return true
	}
	return false
}

// execute calls the handler and notes how it ended, whichever way: return, panic or Goexit.
func (e *Engine) execute(r *run) {
	r.attempt.Init(r.item.sess.owner, r.item.ticket)
	ctx, span := e.tel.span(r)
	var o outcome
	returned := false
	defer func() {
		if !returned {
			o = broken(recover())
		}
		e.tel.endSpan(span, o.err)
		e.conclude(r, o)
	}()
	killpoint.At(killpoint.BeforeEffect)
	o = ended(e.cfg.Handler.Handle(ctx, &r.msg))
	killpoint.At(killpoint.AfterEffect)
	returned = true
}

func ended(err error) outcome {
	return outcome{err: readable(err), kind: ledger.KindError}
}

// broken is the outcome of a handler that did not return; p is what it panicked with.
func broken(p any) outcome {
	if p == nil {
		return outcome{err: errGoexit, kind: ledger.KindGoexit}
	}
	return outcome{err: fmt.Errorf("panic: %v\n%s", p, debug.Stack()), kind: ledger.KindPanic}
}

// readable asks a handler's error all that it will be asked, here where a panic is the handler's: an error that is a nil
// pointer in an interface panics in its methods.
func readable(err error) error {
	if err != nil {
		_ = err.Error()
		_, _ = consumer.IsTerminal(err), fromContext(err)
		_, _ = consumer.RetryDelay(err)
	}
	return err
}

// maxBroken is how often in a row a message's transaction may break off with the database without counting an attempt:
// so many outages may hit one message, but one that breaks its connection each time comes to an end.
const maxBroken = 5

// errSwallowed is the failure of a handler that returns nil although its transaction was rolled back: to call that a
// success would lose the effects that it says are done.
var errSwallowed = errors.New("consumer: the handler returned nil although its transaction (InTx) failed")

// errLeft is the failure of a handler that says that all went well before it is known.
var errLeft = errors.New("consumer: the handler returned while its transaction (InTx) was still running")

var errGoexit = errors.New("the handler ended its goroutine (runtime.Goexit)")

// conclude decides what becomes of a message that its handler has left.
func (e *Engine) conclude(r *run, o outcome) {
	o.cause = r.finish()
	o.state, o.txErr = r.attempt.Conclude()
	e.decide(r, o)
}

// committed is the end of runs that their transactions have settled, and that went well. Nobody changes it.
var committed = &end{step: step{ack: true}}

// decide turns an outcome into the step that follows from it.
func (e *Engine) decide(r *run, o outcome) {
	it := r.item
	switch {
	case o.err != nil:
	case o.state == ledger.AttemptRunning:
		o.err = errLeft
	case o.state == ledger.AttemptOpen && o.txErr != nil:
		o.err = fmt.Errorf("%w: %w", errSwallowed, o.txErr)
	}
	if ledger.Unavailable(o.txErr) {
		e.note(o.txErr) // nothing starts until a beat is answered
		it.broken++
		o.outage = it.broken <= maxBroken
	} else {
		it.broken = 0
	}
	if o.kind == ledger.KindError && errors.Is(o.cause, consumer.ErrTimeout) {
		o.kind = ledger.KindTimeout
	}
	e.tel.handled(r, o)
	var left time.Duration
	if !it.Deadline.IsZero() && !it.overdue && o.err != nil {
		left = max(time.Until(it.Deadline), 1)
	}
	r.given = r.lead.attempt.ResultAt(int(r.place)) != nil
	draw := 0.0
	if o.err != nil {
		draw = rand.Float64()
	}
	st := e.policy.decide(o, it.attempt, draw, left)
	if st == committed.step && o.err == nil {
		r.end = committed
		return
	}
	if st != (step{settle: ledger.Succeed}) || r.given {
		it.complete() // it may get a row
	}
	if st != (step{settle: ledger.Succeed}) {
		r.end = &end{outcome: o, step: st}
		e.report(it, o, st)
	}
}

// apply carries out a step. The engine's lock is held.
func (e *Engine) apply(r *run, now time.Time) {
	it := r.item
	if r.end == nil {
		e.judge(it, now.Sub(e.born), true)
		e.succeed(it, r.result())
		return
	}
	o, st := &r.end.outcome, &r.end.step
	switch {
	case st.again:
		e.alone(it)
	case st.ack:
		e.judge(it, now.Sub(e.born), true)
		e.finish(it, Verdict{Ack: true})
	case st.ask:
		if e.brake.probe == it {
			e.brake.spoken = probeAgain
		}
		e.uncertain(it, now)
	case st.settle == ledger.Fail:
		failure := o.failure(it.attempt, now)
		e.settle(it, &ledger.Settlement{Kind: ledger.Fail, Dead: e.archive(it, st.kind, failure)})
	default:
		set := &ledger.Settlement{Kind: ledger.Release, After: st.after, Count: st.count}
		if e.brake.probe == it {
			e.brake.spoken = probeAgain
		}
		if st.count {
			set.Failure = o.failure(it.attempt, now)
			e.tel.retried()
		}
		e.settle(it, set)
	}
}

// uncertain is an item of which only the ledger knows whether it is ours, or done. It is asked for again, also when the
// broker has its copy back: otherwise it could stay ours for as long as this worker lives, and nobody would run it.
func (e *Engine) uncertain(it *Item, now time.Time) {
	if e.draining {
		e.finish(it, Verdict{}) // leaving frees it
		return
	}
	if it.dropped {
		e.tell(it, Verdict{Held: true})
	}
	it.maybe = !it.sess.lost
	it.asks++
	e.s.hold(it, now.Add(askAgain(0, it.asks, rand.Float64())))
}

// report logs what operators need to know of an outcome.
func (e *Engine) report(it *Item, o outcome, st step) {
	fields := func() []zap.Field {
		return []zap.Field{
			zap.String("message_id", string(it.Key.ID)), zap.Int("attempt", it.attempt),
			zap.Uint64("token", it.ticket.Token()), zap.String("kind", string(o.kind)), zap.Error(o.err),
		}
	}
	switch {
	case st.ack && o.err != nil:
		e.log.Error("handler failed after its transaction had committed: the message succeeded", fields()...)
	case st.ask:
		e.log.Warn("the attempt's transaction was lost or is unknown: the ledger is asked again",
			append(fields(), zap.NamedError("transaction_error", o.txErr))...)
	case st.count:
		e.log.Info("attempt failed", append(fields(), zap.Duration("after", st.after))...)
	case o.kind == ledger.KindPanic:
		e.log.Error("handler panicked", fields()...)
	}
}
