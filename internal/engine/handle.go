package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// run is one run of a handler.
type run struct {
	item      *Item
	msg       consumer.Message // the handler's copy
	delivery  consumer.Delivery
	attempt   *ledger.Attempt
	ctx       context.Context
	cancel    context.CancelCauseFunc
	began     time.Time
	cancelled time.Time // when we cancelled it; the engine's lock guards it
}

// end cancels the handler for a reason of ours. The engine's lock is held.
func (r *run) end(cause error) {
	if r.cancelled.IsZero() {
		r.cancelled = time.Now()
	}
	r.cancel(cause)
}

// poolLoop runs handlers, one after the other. A handler that ends its goroutine (runtime.Goexit) is replaced.
func (e *Engine) poolLoop() {
	done := false
	defer func() {
		if !done {
			e.pool.Go(e.poolLoop)
		}
	}()
	for {
		it := e.take()
		if it == nil {
			done = true
			return
		}
		e.start(it)
	}
}

// take waits for an item that may start; nil when the engine closes.
func (e *Engine) take() *Item {
	e.mu.Lock()
	defer e.unlock()
	for !e.closed {
		for e.mayStart() && e.s.readyQ.len() > 0 {
			it := e.s.readyQ.pop()
			if it.phase == claimed && it.isHead() {
				e.s.setPhase(it, starting)
				return it
			}
		}
		e.toRun.Wait()
	}
	return nil
}

// start runs an item that is ours, within the limits that are shared.
func (e *Engine) start(it *Item) {
	if e.acquire() != nil {
		e.notStarted(it)
		return
	}
	defer e.opt.Limiter.Release()
	if r := e.begin(it); r != nil {
		e.execute(r)
	}
}

// acquire waits for the rate and for the shared limiter, in that order: who waits for the rate keeps no other worker's
// handler from the limiter. One goroutine at a time does both, so that no turns of the rate pile up before the limiter
// and then start at once.
func (e *Engine) acquire() error {
	if e.rate == nil {
		return e.opt.Limiter.Acquire(e.starts)
	}
	if err := e.turn.Acquire(e.starts); err != nil {
		return err
	}
	defer e.turn.Release()
	if err := e.rate.Wait(e.starts); err != nil {
		return err
	}
	return e.opt.Limiter.Acquire(e.starts)
}

// notStarted gives back an item that waited for a limiter when the drain began.
func (e *Engine) notStarted(it *Item) {
	e.mu.Lock()
	if it.phase == starting {
		e.s.setPhase(it, claimed)
		e.release(it)
	}
	e.unlock()
}

// begin makes the run of an item, or does with it what has become due instead: nil. What was true when the item was
// claimed may not be any more: the process may have been frozen since.
func (e *Engine) begin(it *Item) *run {
	alive, msg := it.Alive == nil || it.Alive(), it.message()
	now := time.Now()
	e.mu.Lock()
	defer e.unlock()
	switch {
	case it.phase != starting:
		return nil
	case it.sess.lost:
		e.giveBack(it)
		return nil
	case !alive || it.dropped || e.draining || e.closed:
		it.dropped = true
		e.release(it)
		return nil
	case now.After(it.sess.until): // perhaps not ours any more: the ledger is asked again
		e.uncertain(it, now)
		return nil
	case !e.mayStart(): // paused, or the ledger does not answer
		e.s.setPhase(it, claimed)
		if it.solo {
			e.release(it)
		} else {
			e.s.readyQ.push(it)
		}
		return nil
	}
	r := e.newRun(it, msg, now)
	it.run = r
	e.running[it] = struct{}{}
	e.s.setPhase(it, running)
	return r
}

func (e *Engine) newRun(it *Item, msg consumer.Message, now time.Time) *run {
	r := &run{item: it, msg: msg, attempt: ledger.NewAttempt(it.sess.owner, it.ticket), began: now}
	r.msg.Attempt = it.attempt
	r.delivery = consumer.Delivery{
		Message: &r.msg, Scope: it.Key.Scope, ID: string(it.Key.ID), Token: it.ticket.Token(), Generation: it.generation,
	}
	ctx, cancel := context.WithCancelCause(it.sess.ctx)
	ctx, stop := context.WithTimeoutCause(ctx, e.opt.HandlerTimeout, consumer.ErrTimeout)
	r.cancel = func(cause error) { cancel(cause); stop() }
	r.ctx = consumer.WithDelivery(ledger.WithAttempt(ctx, r.attempt), &r.delivery)
	return r
}

// message is what the next attempt gets. An attempt before it in this process may have changed the bytes in place.
func (it *Item) message() consumer.Message {
	m := *it.Msg
	m.Key = bytes.Clone(m.Key)
	if it.ran && it.Original != nil {
		body, headers := it.Original()
		m.Body, m.Headers = bytes.Clone(body), slices.Clone(headers)
		for i := range m.Headers {
			m.Headers[i].Value = bytes.Clone(m.Headers[i].Value)
		}
	}
	it.ran = true
	return m
}

// execute calls the handler and notes how it ended, whichever way: return, panic or Goexit.
func (e *Engine) execute(r *run) {
	ctx, span := e.tel.span(r)
	var o outcome
	returned := false
	defer func() {
		if !returned {
			o.err, o.kind = errGoexit, ledger.KindGoexit
			if p := recover(); p != nil {
				o.err, o.kind = fmt.Errorf("panic: %v\n%s", p, debug.Stack()), ledger.KindPanic
			}
		}
		e.tel.endSpan(span, o.err)
		e.ended(r, o)
	}()
	err := e.cfg.Handler.Handle(ctx, &r.msg)
	o.err, o.kind = readable(err), ledger.KindError
	returned = true
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

// ended decides what becomes of a message that its handler has left.
func (e *Engine) ended(r *run, o outcome) {
	it := r.item
	o.cause = context.Cause(r.ctx)
	r.cancel(nil)
	o.state, o.txErr = r.attempt.State()
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
	now := time.Now()
	e.tel.handled(now.Sub(r.began), o)
	var left time.Duration
	if !it.Deadline.IsZero() && !it.overdue {
		left = max(it.Deadline.Sub(now), 1)
	}
	st := e.policy.decide(o, it.attempt, rand.Float64(), left)
	e.report(it, o, st)
	e.mu.Lock()
	delete(e.running, it)
	it.run = nil
	e.pace.done++
	if it.phase == running {
		e.apply(it, r, o, st, now)
	}
	e.improved()
	e.unlock()
}

// apply carries out a step.
func (e *Engine) apply(it *Item, r *run, o outcome, st step, now time.Time) {
	switch {
	case st.ack:
		e.finish(it, Verdict{Ack: true})
	case st.ask:
		e.uncertain(it, now)
	case st.settle == ledger.Succeed:
		e.settle(it, ledger.Settlement{Kind: ledger.Succeed, Result: r.attempt.Result()})
	case st.settle == ledger.Fail:
		failure := o.failure(it.attempt, now)
		e.settle(it, ledger.Settlement{Kind: ledger.Fail, Dead: e.archive(it, st.kind, failure)})
	default:
		set := ledger.Settlement{Kind: ledger.Release, After: st.after, Count: st.count}
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
