package engine

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/backoff"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/internal/killpoint"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// handlers calls the user's handler, and decides what follows from how it ends.
type handlers struct {
	*kernel
	lease    *lease
	archives *archives
	handler  consumer.Handler
	batch    consumer.BatchHandler // nil: the handler takes single messages
	failed   func(*Item)           // nil: nobody wants to know
	policy   policy
	calling  calling
	parking  *parking  // nil: nothing is parked
	order    *keyOrder // nil: nobody parks
}

func newHandlers(k *kernel, l *lease, cfg *Config, batch consumer.BatchHandler, archives *archives, parking *parking) *handlers {
	o := &cfg.Options
	return &handlers{
		kernel: k, lease: l, archives: archives, handler: cfg.Handler, batch: batch, failed: cfg.Failed, calling: calling{born: k.born, timeout: o.HandlerTimeout, owner: handlersOwner},
		parking: parking, order: newKeyOrder(k, l.life, cfg),
		policy: policy{attempts: o.Attempts, backoff: backoff.Policy{Base: o.BackoffBase, Max: o.BackoffMax}},
	}
}

// handlersOwner is what groups the calls of a session's handlers.
func handlersOwner(s *flow.Session) ledger.Owner { return sessionOf(s).single }

// mayBegin says whether a run starts its handler, now, since kernel.born. What was true when it was taken may not be any
// more: the process may have been frozen since.
func (h *handlers) mayBegin(c *chunk, r *run, now time.Duration) bool {
	alive := true
	if r.item != nil && r.item.Alive != nil {
		alive, now = r.item.Alive(r.item), h.now()
	}
	c.at.Store(int64(now))
	switch {
	case !alive:
		r.skip = flow.NotAlive
	case r.lead.stop.off.Load():
		r.skip = flow.CalledOff
	case now > sessionOf(r.session()).lasts():
		r.skip = flow.LeaseOver
	default:
		r.prepare(now)
		return true
	}
	return false
}

// execute calls the handler and notes how it ended, whichever way: return, panic or Goexit.
func (h *handlers) execute(r *run) {
	ctx, span := h.tel.span(r)
	var o outcome
	returned := false
	defer func() {
		if !returned {
			o = broken(recover())
		}
		h.tel.endSpan(span, o.err)
		h.conclude(r, o)
	}()
	killpoint.At(killpoint.BeforeEffect)
	o = ended(h.handler.Handle(ctx, r.msg))
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
		_, _ = consumer.SnoozeDelay(err)
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
func (h *handlers) conclude(r *run, o outcome) {
	a, cause := r.finish()
	if o.cause = cause; a != nil {
		o.state, o.txErr = a.Conclude()
		r.given = a.Result() != nil
	}
	h.decide(r, o)
}

// itemOf is a run's item. A stretch of which one message needs it is no stretch any more.
func (h *handlers) itemOf(r *run) *Item {
	if r.item == nil {
		h.do(func(f *flow.Flow, now time.Duration) {
			f.Itemize(now, r.of.dispatch)
			r.item = r.of.dispatch.Items[r.at].Of.(*Item)
		})
	}
	return r.item
}

// decide turns an outcome into the step that follows from it.
func (h *handlers) decide(r *run, o outcome) {
	if r.item == nil && o.err == nil && o.txErr == nil && !r.given {
		switch h.policy.decide(o, 1, 0, 0) { // no item is needed where all went well
		case committed.step:
			r.end = committed
			fallthrough
		case well:
			h.tel.handled(r, o)
			return
		}
	}
	it := h.itemOf(r)
	switch {
	case o.err != nil:
	case o.state == ledger.AttemptRunning:
		o.err = errLeft
	case o.state == ledger.AttemptOpen && o.txErr != nil:
		o.err = fmt.Errorf("%w: %w", errSwallowed, o.txErr)
	}
	away := o.txErr
	if !ledger.Unavailable(away) {
		away = o.err // a step's (consumer.Step)
	}
	switch {
	case errors.Is(away, ledger.ErrOutboxFull): // nothing broke off, and all that publish meet it: it says nothing of this message
		it.full += min(1, math.MaxUint8-it.full)
		o.outage, o.waits = true, int(it.full)
	case ledger.Unavailable(away):
		h.lease.note(away) // nothing starts until a beat is answered
		it.broken = min(it.broken+1, maxBroken+1)
		o.outage = it.broken <= maxBroken
	default:
		it.broken, it.full = 0, 0
	}
	if o.err != nil {
		o.kind = o.failed()
	}
	h.tel.handled(r, o)
	var left time.Duration
	if !it.Deadline.IsZero() && !it.overdue && o.err != nil {
		left = max(time.Until(it.Deadline), 1)
	}
	draw := 0.0
	if o.err != nil {
		draw = rand.Float64()
	}
	o.spared, o.times = o.burdens() && int64(h.now()) < h.excused.Load(), int(it.spared)
	policy := h.policy
	if it.Parked { // it waits in the ledger again
		policy.longest = ledger.MaxPark
	}
	st := policy.decide(o, it.Attempt(), draw, left)
	if st.spared {
		it.spared += min(1, math.MaxUint8-it.spared)
	}
	if st == committed.step && o.err == nil {
		r.end = committed
		return
	}
	if st != well || r.given {
		it.complete() // it may get a row
	}
	if st != well {
		r.end = &end{outcome: o, step: st}
		if h.failed != nil && (st.settle == ledger.Release || st.settle == ledger.Fail) {
			h.failed(it)
		}
		if st.settle == ledger.Fail {
			r.end.dead = h.archives.of(it, it.Attempt(), st.kind, o.failure(it.Attempt(), time.Now()))
		}
		h.parks(r, draw, left)
		h.report(it, o, r.end.step)
	}
}

// parks has a retry wait in the ledger, if it may: also one that its broker would forget before its time, or counts against its tenant. If
// the ledger does not take it, or it cannot be sealed, what was to follow follows.
func (h *handlers) parks(r *run, draw float64, left time.Duration) {
	it, was := r.item, r.end.step
	forced := was.kind == ledger.KindDeadline && left > 0
	if !h.parking.may(it) || !forced && (was.settle != ledger.Release || r.end.outcome.outage) {
		return
	}
	pins := h.parking.cfg.Shown.Pins
	must := forced || it.Msg.Group != "" || pins != nil && pins(it) // to a fair queue a group is the noisier, the more of it waits in flight
	longer := h.policy
	longer.longest = ledger.MaxPark
	next := longer.decide(r.end.outcome, it.Attempt(), draw, 0)
	dead := h.archives.parked(it)
	if next.settle != ledger.Release || dead.Size() > h.parking.cfg.Ledger.Limits().Archive || !h.parking.takes(it.Key.Scope, next.after, dead.Weight(), must) {
		return
	}
	next.settle = ledger.Park
	it.parks()
	r.end.step, r.end.instead, r.end.dead, r.end.insteadDead = next, was, dead, r.end.dead
}

// standsStill is for how long an ordering key stands still before operators are told.
const standsStill = time.Minute

// report logs what operators need to know of an outcome.
func (h *handlers) report(it *Item, o outcome, st step) {
	fields := func() []zap.Field {
		return []zap.Field{
			zap.String("message_id", string(it.Key.ID)), zap.Int("attempt", it.Attempt()),
			zap.Uint64("token", it.Ticket().Token()), zap.String("kind", string(o.kind)), zap.Error(o.err),
		}
	}
	switch {
	case st.ack && o.err != nil:
		h.log.Error("handler failed after its transaction had committed: the message succeeded", fields()...)
	case st.ask:
		h.log.Warn("the attempt's transaction was lost or is unknown: the ledger is asked again",
			append(fields(), zap.NamedError("transaction_error", o.txErr))...)
	case st.settle == ledger.Release && it.OrderingKey != "" && st.after >= standsStill:
		h.log.Warn("the message waits, and what is ordered behind it waits as well", append(fields(), zap.Duration("after", st.after))...)
	case st.count:
		h.log.Info("attempt failed", append(fields(), zap.Duration("after", st.after))...)
	case st.spared:
		h.log.Info("attempt failed as most do of late: it does not count", append(fields(), zap.Duration("after", st.after))...)
	case o.kind == ledger.KindPanic:
		h.log.Error("handler panicked", fields()...)
	}
}
