package memory

import (
	"context"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// InTx plays the InTx of a database for tests of handlers: it runs fn once, and then settles the message of the attempt
// in ctx as succeeded, fenced by its token; of a batch all of them, or none. Memory cannot roll back: what fn did outside stays done when fn fails or
// the fence does, so effects that a test wants undone must look at the returned error.
//
// Errors: [ledger.ErrNoAttempt] outside of a handler, [ledger.ErrSettled] on a second call in one attempt, or once its
// handler has returned, [ledger.ErrLost] when the message is not ours any more, and whatever fn returns.
func InTx(ctx context.Context, fn func(ctx context.Context) error) error {
	f, s, err := driver.Begin[*store](ctx)
	if err != nil {
		return err
	}
	return f.Run(ctx, 0, func() (ledger.AttemptState, error) {
		if err := fn(ctx); err != nil {
			return ledger.AttemptOpen, err
		}
		if err := f.Commits(); err != nil {
			return ledger.AttemptOpen, err
		}
		return s.commit(context.WithoutCancel(ctx), f)
	})
}

// commit settles all messages of the attempt, if every row is this attempt's still.
func (s *store) commit(ctx context.Context, f *driver.Fence) (ledger.AttemptState, error) {
	fenced := false
	err := s.Update(ctx, driver.Call{Op: driver.Settle}, func(t driver.Tx) error {
		if err := f.Check(t); err != nil {
			return err
		}
		fenced = true
		return f.Write(t)
	})
	switch {
	case fenced: // memory knows, even if the answer was lost
		f.Committed()
		return ledger.AttemptSucceeded, nil
	case ledger.IsLost(err):
		return ledger.AttemptLost, err
	}
	return ledger.AttemptOpen, err
}
