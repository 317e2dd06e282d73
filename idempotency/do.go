package idempotency

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/internal/response"
	"github.com/ackledger/ackledger/ledger"
)

// Func does what a request asks for. ctx carries what a handler's does: postgres.InTx, consumer.ChildKey, consumer.Token, and the
// values of Do's. It ends after Options.Timeout, when the lease is lost and when a drain's time is up; not with Do's, unless the
// function looks at that itself. An error is not stored, and the next request runs again, unless it is consumer.Terminal or the
// last of Options.Attempts: then the request has failed for good.
type Func func(ctx context.Context) (Result, error)

// Outcome is what came of a request.
type Outcome struct {
	// Result is what was stored, or, of a call whose function ran, what that returned. Callers that waited for one another share its body:
	// it is not to be changed.
	Result Result
	// Replayed says that the result is the one that the ledger has: the function was not run, or it was and another run has answered, since
	// its lease was lost; or the ledger had to be asked whether it committed.
	Replayed bool
	// Attempt is which run of the request this was, from 1; zero if Replayed.
	Attempt int
}

// call is one Do.
type call struct {
	ctx    context.Context // Do's
	flight *flight
	f      Func
	at     place         // of its result
	state  atomic.Int32  // of a stage
	said   response.Call // what the ledger has said
	ended  chan flow.Verdict

	returned atomic.Bool   // its function has returned
	left     chan struct{} // closed once nothing of its handler runs: what follows may be read

	// Its handler's goroutine writes these.
	out       Outcome
	err       error
	soFar     func() (Result, error) // see SetResultFrom; nil: it was not called
	committed bool                   // its transaction has settled it
	panicked  any                    // nil: it did not
}

// The stages of a call.
const (
	waits     int32 = iota // its function has not begun
	begun                  // its function has begun, and does not begin again
	abandoned              // nobody waits for it any more, and it does not begin
)

// Do runs f for q unless the ledger knows the request: then it answers what was stored, or waits for who runs it now.
//
// f runs once at most in one Do, in another goroutine, and Do returns after it; a panic is passed on. Do returns f's own error where f
// ran and is to be run again ([Release], or an attempt that is not the last). Other errors: a [*FailedError] (the request failed for
// good, now or before), [ErrMismatch] (the key is known with another body), an [*InProgressError] or [ErrWaited] (somebody else runs
// it), [ErrFull], [ErrNoTurn], [ErrUnavailable], [ErrPaused], a [*KeyError], a [*TooLargeError] (f's result cannot be kept; the request has failed for
// good, since its effects may have happened), [ErrUnknown], and ctx's, where it ended before f began.
func (r *Runner) Do(ctx context.Context, q Request, f Func) (out Outcome, err error) {
	waited := false
	defer func() { r.telemetry.answered(&out, err, waited) }()
	key, err := q.key(r.opt.CheckKey)
	if err != nil {
		return Outcome{}, err
	}
	if q.Window < 0 || q.Window > 0 && q.Window < time.Second {
		return Outcome{}, fmt.Errorf("idempotency: Request.Window: must be 0, or at least 1s, is %s", q.Window)
	}
	if err := r.enter(); err != nil {
		return Outcome{}, err
	}
	defer r.leave()
	r.audits.met(q.Scope)
	limit := time.NewTimer(r.opt.Wait)
	defer limit.Stop()
	k := flightKey{key.Sum(), q.fingerprint()}
	for {
		x, meets := r.flights.join(k)
		goesOn := x.done
		switch {
		case meets == meetsNobody:
			return r.lead(ctx, x, limit.C, &q, key, f)
		case meets == meetsOther:
			return Outcome{}, ErrMismatch
		case meets == meetsEqual && r.opt.Refuse:
			return Outcome{}, &InProgressError{Rest: r.worker.Lease}
		case r.opt.Refuse, x.body != k.body:
			goesOn = x.heard
		}
		waited = true
		select {
		case <-goesOn:
		case <-limit.C:
			return Outcome{}, r.waited(x)
		case <-ctx.Done():
			return Outcome{}, context.Cause(ctx)
		}
		select {
		case <-x.done:
			if x.body == k.body && x.kept {
				return x.out, x.err
			}
		default: // only heard of
		}
	}
}

// lead asks the ledger for a request, and runs it if it is to be run.
func (r *Runner) lead(ctx context.Context, x *flight, limit <-chan time.Time, q *Request, key ledger.Key, f Func) (out Outcome, err error) {
	err = ErrUnknown // if it panics
	var c *call
	defer func() {
		r.flights.land(x, out, err, !r.opt.RerunFailed, c != nil && c.over() && c.committed)
		if err == nil {
			r.sieve.note(out.Replayed)
		}
	}()
	if out, err, ok := r.known(ctx, q, key, x.body); ok {
		return out, err
	}
	c = &call{ctx: ctx, flight: x, f: f, at: place{x.key, cmp.Or(q.Window, r.opt.Window) + r.audits.keep}, ended: make(chan flow.Verdict, 1), left: make(chan struct{})}
	it := &engine.Item{
		Item: flow.Item{Identity: flow.Identity{Key: key, Fingerprint: x.body}, NoWait: r.opt.Refuse, Size: int64(len(q.Body)) + callBytes},
		Msg:  &consumer.Message{ID: string(key.ID), Source: r.opt.Name}, Delivery: []byte(rand.Text()), Window: q.Window, Alive: alive, Ref: c,
	}
	r.eng.Offer([]*engine.Item{it})
	return r.await(c, limit)
}

// known answers a request without a claim, where the filter knows it, or requests repeat much, and the ledger says that it has succeeded.
func (r *Runner) known(ctx context.Context, q *Request, key ledger.Key, body ledger.Fingerprint) (out Outcome, err error, ok bool) {
	if r.sieve.passes() {
		return Outcome{}, nil, false
	}
	ended, why := r.sieve.ended(ctx, key, body, cmp.Or(q.Window, r.opt.Window))
	r.telemetry.filtered.Add(context.Background(), 1, r.telemetry.with(attribute.String("result", why)))
	if ended == nil {
		return Outcome{}, nil, false
	}
	out, err = r.replayed(ctx, *ended)
	return out, err, true
}

// callBytes is about what a call takes beside its body.
const callBytes = 2 << 10

// enter counts a call in.
func (r *Runner) enter() error {
	if r.waiting.Add(1) > int64(r.opt.Waiting) {
		r.waiting.Add(-1)
		return fmt.Errorf("%w: %d", ErrFull, r.opt.Waiting)
	}
	if !r.eng.Open() {
		r.waiting.Add(-1)
		return r.unavailable()
	}
	return nil
}

// unavailable says why nothing starts.
func (r *Runner) unavailable() error {
	if r.paused.Load() {
		return ErrPaused
	}
	h := r.eng.Health()
	for i := range h.Stalled {
		if h.Stalled[i].Reason == consumer.StallPaused {
			return fmt.Errorf("%w: %s", ErrPaused, h.Stalled[i].Why)
		}
	}
	if why := h.LastError; why != "" {
		return fmt.Errorf("%w: %s", ErrUnavailable, why)
	}
	return ErrNotRunning
}

func (r *Runner) leave() { r.waiting.Add(-1) }

// await waits for the end of a call, or until it has waited for long enough to begin.
func (r *Runner) await(c *call, limit <-chan time.Time) (Outcome, error) {
	var err error
	select {
	case v := <-c.ended:
		return r.outcome(c, v)
	case <-c.left:
		return r.settled(c)
	case err = <-c.flight.told:
	case <-limit:
		err = r.waited(c.flight)
	case <-c.ctx.Done():
		err = context.Cause(c.ctx)
	}
	if c.state.CompareAndSwap(waits, abandoned) {
		return Outcome{}, err
	}
	return r.settled(c)
}

// settled waits for the function's end, and then for the ledger to have noted it, for as long as its callers wait for others.
func (r *Runner) settled(c *call) (Outcome, error) {
	select {
	case v := <-c.ended:
		return r.outcome(c, v)
	case <-c.left:
	}
	limit := time.NewTimer(max(r.opt.Wait, DefaultWait))
	defer limit.Stop()
	select {
	case v := <-c.ended:
		return r.outcome(c, v)
	case <-limit.C:
	}
	if c.panicked != nil {
		panic(c.panicked)
	}
	return Outcome{}, ErrUnknown
}

// over says that nothing of its handler runs any more.
func (c *call) over() bool {
	select {
	case <-c.left:
		return true
	default:
		return false
	}
}

// waited is the error of who has waited for a flight for long enough.
func (r *Runner) waited(x *flight) error {
	switch state := x.state.Load(); {
	case state == strange:
		return ErrMismatch
	case !r.eng.Open():
		return r.unavailable()
	case state == another:
		return fmt.Errorf("%w: for %s", ErrWaited, r.opt.Wait)
	}
	return fmt.Errorf("%w: for %s", ErrNoTurn, r.opt.Wait)
}

// outcome is what a call's end means.
func (r *Runner) outcome(c *call, v flow.Verdict) (Outcome, error) {
	if !c.state.CompareAndSwap(waits, abandoned) { // else it does not begin any more, whatever the engine still does with it
		if !c.over() { // a drain's time was up
			return Outcome{}, ErrUnknown
		}
		if c.panicked != nil {
			panic(c.panicked)
		}
		return r.tell(c, c.said.Ran(v.Ack, c.committed, c.err != nil))
	}
	return r.tell(c, c.said.NotRun(v.Ack, !v.Ack && c.flight.met(), !v.Ack && r.opt.Refuse && r.eng.Open()))
}

// tell is what a caller is told.
func (r *Runner) tell(c *call, what response.Response) (Outcome, error) {
	switch what {
	case response.Answer:
		return c.out, nil
	case response.Failure:
		return c.out, &FailedError{Text: c.err.Error(), Err: c.err}
	case response.Stored:
		return r.replayed(c.ctx, c.said.Heard.Outcome)
	case response.Crashed:
		return c.out, &FailedError{Text: fmt.Sprintf("idempotency: the request's process crashed %d times", c.said.Heard.Crashes)}
	case response.Error:
		return c.out, c.err
	case response.Unavailable:
		return Outcome{}, r.unavailable()
	case response.InProgress:
		return Outcome{}, &InProgressError{Rest: cmp.Or(c.said.Heard.Wait, r.worker.Lease)}
	case response.Mismatch:
		return Outcome{}, ErrMismatch
	}
	return c.out, ErrUnknown
}

// replayed is the outcome of a request that was done before.
func (r *Runner) replayed(ctx context.Context, stored ledger.Outcome) (Outcome, error) {
	out := Outcome{Replayed: true}
	var failed string
	var err error
	if stored.Result != nil {
		if out.Result, failed, err = r.results.load(ctx, stored.Result); err != nil {
			return out, err
		}
	} else {
		out.Result.Tombstone = "nothing was stored with the request's end"
	}
	if stored.State == ledger.Failed {
		return out, &FailedError{Text: failed}
	}
	return out, nil
}

// alive says whether somebody waits for the call, and it has not begun before.
func alive(it *engine.Item) bool { return it.Ref.(*call).state.Load() == waits }

// heard notes what the ledger says.
func (r *Runner) heard(it *engine.Item, a *ledger.Claim) {
	c := it.Ref.(*call)
	c.said.Hear(a)
	x := c.flight
	switch {
	case c.said.Heard.Err != nil:
		x.tell(fmt.Errorf("idempotency: the ledger refuses the request: %w", c.said.Heard.Err))
	case c.said.Differs():
		x.state.Store(strange)
	case a.Answer == ledger.Run:
		x.state.Store(turn)
		r.flights.answered(x, true)
	case a.Answer == ledger.Busy:
		if x.state.Store(another); !r.opt.Refuse { // else it lands now
			r.flights.answered(x, false)
		}
	}
}

// Finish implements the engine's sink.
func (r *Runner) Finish(done []engine.Finished) {
	for _, f := range done {
		f.Item.Ref.(*call).ended <- f.Verdict
	}
}
