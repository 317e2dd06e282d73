package idempotency

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
)

// scope is a function's context: the engine's, with the values of Do's behind it.
type scope struct {
	context.Context
	call    *call
	results *results
}

type scopeKey struct{}

// Value looks for a value where the attempt is, and then where Do was called.
func (s *scope) Value(key any) any {
	if key == (scopeKey{}) {
		return s
	}
	if v := s.Context.Value(key); v != nil {
		return v
	}
	return s.call.ctx.Value(key)
}

// SetResult sets what is stored with the request's success. A function whose transaction settles the request (postgres.InTx,
// sqlite.InTx) calls it before the transaction ends, so that effect, result and success are one commit; for all others what they
// return is set. The last call wins. Errors: [ledger.ErrNoAttempt] outside of a [Func], [ledger.ErrSettled] after the commit, a
// [*TooLargeError], and those of the cipher.
func SetResult(ctx context.Context, r Result) error {
	s, ok := ctx.Value(scopeKey{}).(*scope)
	if !ok {
		return ledger.ErrNoAttempt
	}
	stored, err := s.results.store(ctx, s.call.at, &r, "")
	if err != nil {
		return err
	}
	return consumer.SetResult(ctx, stored)
}

// handle runs a call's function, and sets what is stored of its end.
func (r *Runner) handle(ctx context.Context, m *consumer.Message) error {
	c := engine.ItemFrom(ctx).Ref.(*call)
	if !c.state.CompareAndSwap(waits, begun) {
		return engine.ErrGiveBack
	}
	defer close(c.left)
	c.flight.state.Store(another)
	c.out.Attempt = m.Attempt
	ctx = &scope{Context: ctx, call: c, results: &r.results}
	attempt, _ := ledger.AttemptFrom(ctx)
	attempt.BeforeCommit(func() error { return c.commits(ctx, attempt) })
	c.out.Result, c.err = c.run(ctx)
	state, failed := attempt.State()
	switch {
	case state == ledger.AttemptSucceeded:
		if c.committed = true; attempt.Result() == nil {
			r.opt.Logger.Error("the request's transaction has committed without its result: a repetition is told so (idempotency.SetResult)",
				zap.String("message_id", m.ID))
		}
		return c.err
	case state == ledger.AttemptLost, state == ledger.AttemptUnknown:
		return c.err // the ledger is asked what came of it
	case c.err == nil && state == ledger.AttemptRunning:
		c.err = errLeft
	case c.err == nil && failed != nil:
		c.err = fmt.Errorf("idempotency: the function returned nil although its transaction failed: %w", failed)
	case c.err == nil:
		c.err = r.keep(ctx, c.at, &c.out.Result)
	}
	if c.err != nil && state != ledger.AttemptRunning { // else what its transaction commits is a success
		r.keepFailure(ctx, c.at, c.err)
	}
	return c.err
}

var errLeft = errors.New("idempotency: the function returned while its transaction was still running")

// Release is the error of a function that wants its request to be run again by whoever asks next, uncounted, however often: nothing of
// it is done, or nothing that would count. Do returns it, and err is what it wraps.
func Release(err error) error { return &releaseError{err} }

type releaseError struct{ err error }

func (e *releaseError) Error() string   { return e.err.Error() }
func (e *releaseError) Unwrap() []error { return []error{e.err, engine.ErrGiveBack} }

// commits is called when the function's transaction is about to commit. One that outlives its function rolls back, unless its result was set:
// what the caller is told would not be what is stored.
func (c *call) commits(ctx context.Context, attempt *ledger.Attempt) error {
	switch {
	case attempt.Result() != nil:
		return nil
	case c.returned.Load():
		return errLeft
	case c.soFar == nil:
		return nil
	}
	res, err := c.soFar()
	if err != nil {
		return err
	}
	return SetResult(ctx, res)
}

// SetResultFrom has f asked for the result where a transaction settles the request and SetResult was not called in it: right before
// the commit, after the transaction's function has returned nil. Its error rolls back. For who answers piece by piece, as package
// httpkey does. The last call wins. Errors: [ledger.ErrNoAttempt] outside of a [Func].
func SetResultFrom(ctx context.Context, f func() (Result, error)) error {
	s, ok := ctx.Value(scopeKey{}).(*scope)
	if !ok {
		return ledger.ErrNoAttempt
	}
	s.call.soFar = f
	return nil
}

// run calls the function. A panic is noted, and goes on.
func (c *call) run(ctx context.Context) (r Result, err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if c.panicked = recover(); c.panicked != nil {
			panic(c.panicked)
		}
		c.err = errGoexit
	}()
	r, err = c.f(ctx)
	c.returned.Store(true)
	returned = true
	return r, err
}

var errGoexit = errors.New("idempotency: the function ended its goroutine (runtime.Goexit)")

// keep sets a success' result. What cannot be kept fails the request for good, since its effects may have happened.
func (r *Runner) keep(ctx context.Context, at place, res *Result) error {
	stored, err := r.results.store(ctx, at, res, "")
	if err != nil {
		return consumer.Terminal(err)
	}
	return consumer.SetResult(ctx, stored)
}

// maxText is how much of an error's text is stored, in bytes.
const maxText = 4 << 10

// keepFailure sets what is stored if this failure is the request's end.
func (r *Runner) keepFailure(ctx context.Context, at place, failure error) {
	text := failure.Error()
	text = text[:min(len(text), maxText)]
	stored, err := r.results.store(ctx, at, &Result{}, text)
	if err == nil {
		err = consumer.SetResult(ctx, stored)
	}
	if err != nil {
		r.opt.Logger.Warn("a failure's text is not kept: a repetition is told only that the request failed", zap.Error(fmt.Errorf("%w; of: %w", err, failure)))
	}
}
