package memory

import (
	"context"
	"errors"
	"fmt"

	"github.com/ackledger/ackledger/ledger"
)

var errAborted = errors.New("memory: the transaction's function did not return")

// InTx plays the InTx of a database for tests of handlers: it runs fn once, and then settles the message of the attempt
// in ctx as succeeded, fenced by its token. Memory cannot roll back: what fn did outside stays done when fn fails or
// the fence does, so effects that a test wants undone must look at the returned error.
//
// Errors: [ledger.ErrNoAttempt] outside of a handler, [ledger.ErrSettled] on a second call in one attempt,
// [ledger.ErrLost] when the message is not ours any more, and whatever fn returns.
func InTx(ctx context.Context, fn func(ctx context.Context) error) error {
	a, ok := ledger.AttemptFrom(ctx)
	if !ok {
		return ledger.ErrNoAttempt
	}
	o, ok := ledger.Unwrap(a.Owner()).(*owner)
	if !ok {
		return fmt.Errorf("memory: the attempt belongs to another store (%T)", a.Owner())
	}
	if err := a.Begin(); err != nil {
		return err
	}
	state, err := ledger.AttemptOpen, errAborted
	defer func() { a.End(state, err) }() // also after a panic or a Goexit in fn
	if err = fn(ctx); err != nil {
		return err
	}
	state, err = o.commit(context.WithoutCancel(ctx), a)
	return err
}

// commit settles, and reads what became of a commit whose answer was lost.
func (o *owner) commit(ctx context.Context, a *ledger.Attempt) (ledger.AttemptState, error) {
	errs, err := o.Settle(ctx, []ledger.Settlement{{Ticket: a.Ticket(), Kind: ledger.Succeed, Result: a.Result()}})
	switch {
	case err == nil && errs[0] == nil:
		return ledger.AttemptSucceeded, nil
	case err == nil && ledger.IsLost(errs[0]):
		return ledger.AttemptLost, errs[0]
	case err == nil:
		return ledger.AttemptOpen, errs[0]
	case !ledger.Unknown(err):
		return ledger.AttemptOpen, err
	}
	o.ledger.mu.Lock()
	defer o.ledger.mu.Unlock()
	r := o.ledger.rows[a.Ticket().Sum()]
	switch {
	case r == nil || r.token != a.Ticket().Token():
		return ledger.AttemptLost, ledger.ErrLost
	case r.state == ledger.Succeeded:
		return ledger.AttemptSucceeded, nil
	}
	return ledger.AttemptOpen, err
}
