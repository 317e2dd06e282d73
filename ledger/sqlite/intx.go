package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/ackledger/ackledger/internal/fencedsql"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// A savepoint is opened first: while it is there, the transaction is the one that began.
const (
	sqlSavepoint = "SAVEPOINT ackledger_intx"
	sqlRelease   = "RELEASE ackledger_intx"
)

// InTx runs fn in a transaction on the ledger's file, and commits what fn did together with the message's success: both
// or neither. It is called once, by a handler, with the handler's context; the handler returns its error. In a batch
// handler it is the effects and the success of all messages of the batch: if one of them is not ours any more, nothing
// is committed. The application's tables live in the ledger's file.
//
// The transaction is BEGIN IMMEDIATE: from then until InTx returns nobody else writes to the file, in this process or
// another (beats go on, they have a file of their own). It waits for its turn until ctx ends, at most Config.TxLimit,
// and then may last Config.TxLimit. It does not end with ctx, but the context given to fn does, so that statements stop:
// if fn returns nil nevertheless, the fence decides.
//
// fn must use tx alone, must not call Commit or Rollback on it ([ErrRefused]; the effects are rolled back), and must not
// send them as statements ([ErrEnded]). If fn returns an error or panics, everything is rolled back, the error is
// returned as it is (the panic goes on), and the processor settles the message.
//
// Errors: [ledger.ErrNoAttempt] outside of a handler; [ledger.ErrSettled] on a second call in one attempt, or once its
// handler has returned; [ledger.ErrLost] if the message is not this owner's any more (rolled back); [ErrBusy], for which
// [ledger.Unavailable] is true, if the file was not free in time; [ErrTimeLimit]; one for which [ledger.Unknown] is true if
// the answer of the COMMIT was lost and the row could not be read either; else what the database said, with everything
// rolled back.
func InTx(ctx context.Context, fn func(ctx context.Context, tx *sql.Tx) error) error {
	f, s, err := driver.Begin[*store](ctx)
	if err != nil {
		return err
	}
	return f.Run(ctx, s.cfg.hooks.settle, func() (ledger.AttemptState, error) { return s.transact(ctx, f, fn) })
}

// transact runs the whole transaction. An AttemptUnknown is about its COMMIT.
func (s *store) transact(ctx context.Context, f *driver.Fence, fn func(context.Context, *sql.Tx) error) (ledger.AttemptState, error) {
	wait, cancel := context.WithTimeout(ctx, s.cfg.TxLimit)
	defer cancel()
	if err := s.main.turn.take(wait); err != nil {
		return ledger.AttemptOpen, ledger.MarkUnavailable(fmt.Errorf("ledger/sqlite: InTx: %w", err))
	}
	defer s.main.turn.give()
	tx, err := begin(wait, func(context.Context) (*fencedsql.Tx, error) {
		return fencedsql.Begin(wait, s.tx, nil, s.cfg.TxLimit) // wait: a statement of the last handler may have the connection
	})
	if err != nil {
		return ledger.AttemptOpen, ledger.MarkUnavailable(fmt.Errorf("ledger/sqlite: InTx: %w", err))
	}
	defer s.rollback(f, tx) // does nothing after the commit
	fnCtx, cancelFn := context.WithTimeoutCause(ctx, s.cfg.TxLimit, ErrTimeLimit)
	defer cancelFn()
	in := s.newTx(context.WithoutCancel(ctx), tx.SQL(), s.fence)
	if _, err := in.exec(sqlSavepoint); err != nil {
		return ledger.AttemptOpen, fmt.Errorf("ledger/sqlite: InTx: %w", err)
	}
	if err := fn(fnCtx, tx.SQL()); err != nil {
		if over := tx.Err(); errors.Is(over, ErrTimeLimit) { // else the handler's "transaction has already been ..." explains nothing
			err = errors.Join(err, fmt.Errorf("ledger/sqlite: InTx: %w", over))
		}
		return ledger.AttemptOpen, err
	}
	if err := f.Commits(); err != nil {
		return ledger.AttemptOpen, err
	}
	return s.commit(f, tx, in)
}

// commit fences and commits, on a context that neither shutdown nor a lost lease cancels.
func (s *store) commit(f *driver.Fence, tx *fencedsql.Tx, in *tx) (ledger.AttemptState, error) {
	if err := tx.Ending(s.cfg.hooks.settle); err != nil {
		return ledger.AttemptOpen, fmt.Errorf("ledger/sqlite: InTx: %w", err)
	}
	if _, err := in.exec(sqlRelease); err != nil {
		return ledger.AttemptOpen, fmt.Errorf("ledger/sqlite: InTx: %w: %w", ErrEnded, err)
	}
	in.now = time.Now() // the handler has taken its time
	switch err := f.Write(in); {
	case ledger.IsLost(err):
		return ledger.AttemptLost, fmt.Errorf("ledger/sqlite: InTx: %w", err)
	case err != nil:
		return ledger.AttemptOpen, fmt.Errorf("ledger/sqlite: InTx: the fence: %w", err)
	}
	sent, err := tx.Commit()
	switch {
	case err == nil:
		f.Committed()
		return ledger.AttemptSucceeded, nil
	case sent && ledger.Unknown(commitError(err)):
		return ledger.AttemptUnknown, err
	}
	return ledger.AttemptOpen, fmt.Errorf("ledger/sqlite: InTx: COMMIT: %w", err)
}

func (s *store) rollback(f *driver.Fence, tx *fencedsql.Tx) {
	if err := ended(tx.Rollback()); err != nil {
		s.cfg.Logger.Warn("the rollback of an InTx failed", zap.String("owner", f.Owner()), zap.Error(err))
	}
}
