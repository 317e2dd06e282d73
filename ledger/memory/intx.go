package memory

import (
	"context"
	"errors"
	"fmt"

	"github.com/ackledger/ackledger/ledger"
)

var errAborted = errors.New("memory: the transaction's function did not return")

// InTx plays the InTx of a database for tests of handlers: it runs fn once, and then settles the message of the attempt
// in ctx as succeeded, fenced by its token; of a batch all of them, or none. Memory cannot roll back: what fn did outside stays done when fn fails or
// the fence does, so effects that a test wants undone must look at the returned error.
//
// Errors: [ledger.ErrNoAttempt] outside of a handler, [ledger.ErrSettled] on a second call in one attempt, or once its
// handler has returned, [ledger.ErrLost] when the message is not ours any more, and whatever fn returns.
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

// commit settles all messages of the attempt, if every row is this attempt's still.
func (o *owner) commit(ctx context.Context, a *ledger.Attempt) (ledger.AttemptState, error) {
	tickets := a.Tickets()
	rows, fences := o.ranged.Fences(tickets)
	l := o.ledger
	fenced := false
	err := l.do(ctx, Settle, func() error {
		now := l.now()
		for i := range fences {
			if !o.fenced(&fences[i]) {
				return ledger.ErrLost
			}
		}
		for _, i := range rows {
			t := tickets[i]
			// Also if it succeeded already: not with these effects.
			if o.decide(l.rows.get(t.Sum()), now, &ledger.Settlement{Ticket: t, Kind: ledger.Succeed}) != ledger.EffectWrite {
				return ledger.ErrLost
			}
		}
		fenced = true
		for i := range fences {
			o.commitRange(&fences[i], a, now)
		}
		for _, i := range rows {
			t := tickets[i]
			l.finish(t.Sum(), l.rows.get(t.Sum()), now, &ledger.Settlement{Ticket: t, Kind: ledger.Succeed, Result: a.ResultAt(i)})
		}
		return nil
	})
	if fenced {
		o.ranged.Committed(fences)
	}
	switch {
	case fenced: // memory knows, even if the answer was lost
		return ledger.AttemptSucceeded, nil
	case ledger.IsLost(err):
		return ledger.AttemptLost, err
	}
	return ledger.AttemptOpen, err
}
