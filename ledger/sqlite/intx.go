package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/ackledger/ackledger/internal/fencedsql"
	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// savepoint is opened first: while it is there, the transaction is the one that began.
const savepoint = "ackledger_intx"

var errAborted = errors.New("ledger/sqlite: the transaction's function did not return")

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
func InTx(ctx context.Context, fn func(ctx context.Context, tx *sql.Tx) error) (err error) {
	a, ok := ledger.AttemptFrom(ctx)
	if !ok {
		return ledger.ErrNoAttempt
	}
	o, ok := ledger.Unwrap(a.Owner()).(*owner)
	if !ok {
		return fmt.Errorf("ledger/sqlite: InTx: the attempt belongs to another store (%T)", a.Owner())
	}
	if err := a.Begin(); err != nil {
		return err
	}
	state := ledger.AttemptOpen
	err = errAborted
	defer func() { a.End(state, err) }() // also after a panic or a Goexit in fn
	state, err = o.transact(ctx, a, fn)
	if state == ledger.AttemptUnknown {
		state, err = o.resolve(ctx, a.Tickets(), err)
	}
	return err
}

// transact runs the whole transaction. An AttemptUnknown is about its COMMIT.
func (o *owner) transact(ctx context.Context, a *ledger.Attempt, fn func(context.Context, *sql.Tx) error) (ledger.AttemptState, error) {
	l := o.l
	wait, cancel := context.WithTimeout(ctx, l.cfg.TxLimit)
	defer cancel()
	if err := l.main.turn.take(wait); err != nil {
		return ledger.AttemptOpen, ledger.MarkUnavailable(fmt.Errorf("ledger/sqlite: InTx: %w", err))
	}
	defer l.main.turn.give()
	tx, err := begin(wait, func(context.Context) (*fencedsql.Tx, error) {
		return fencedsql.Begin(wait, l.tx, nil, l.cfg.TxLimit) // wait: a statement of the last handler may have the connection
	})
	if err != nil {
		return ledger.AttemptOpen, ledger.MarkUnavailable(fmt.Errorf("ledger/sqlite: InTx: %w", err))
	}
	defer o.rollback(tx) // does nothing after the commit
	fnCtx, cancelFn := context.WithTimeoutCause(ctx, l.cfg.TxLimit, ErrTimeLimit)
	defer cancelFn()
	if _, err := tx.SQL().ExecContext(context.WithoutCancel(ctx), "SAVEPOINT "+savepoint); err != nil {
		return ledger.AttemptOpen, fmt.Errorf("ledger/sqlite: InTx: %w", err)
	}
	if err := fn(fnCtx, tx.SQL()); err != nil {
		if over := tx.Err(); errors.Is(over, ErrTimeLimit) { // else the handler's "transaction has already been ..." explains nothing
			err = errors.Join(err, fmt.Errorf("ledger/sqlite: InTx: %w", over))
		}
		return ledger.AttemptOpen, err
	}
	return o.commit(ctx, a, tx)
}

// commit fences and commits, on a context that neither shutdown nor a lost lease cancels.
func (o *owner) commit(ctx context.Context, a *ledger.Attempt, tx *fencedsql.Tx) (ledger.AttemptState, error) {
	if err := tx.Ending(o.l.cfg.hooks.settle); err != nil {
		return ledger.AttemptOpen, fmt.Errorf("ledger/sqlite: InTx: %w", err)
	}
	ctx = context.WithoutCancel(ctx)
	if _, err := tx.SQL().ExecContext(ctx, "RELEASE "+savepoint); err != nil {
		return ledger.AttemptOpen, fmt.Errorf("ledger/sqlite: InTx: %w: %w", ErrEnded, err)
	}
	rows, fences := o.ranged.Fences(a.Tickets())
	if state, err := o.fence(ctx, a, tx.SQL(), rows, fences); err != nil {
		return state, err
	}
	sent, err := tx.Commit()
	switch {
	case err == nil:
		o.ranged.Committed(fences)
		return ledger.AttemptSucceeded, nil
	case sent && ledger.Unknown(commitError(err)):
		return ledger.AttemptUnknown, err
	}
	return ledger.AttemptOpen, fmt.Errorf("ledger/sqlite: InTx: COMMIT: %w", err)
}

// fence writes the success of each message, if it is still ours. Only all of them allow the commit.
func (o *owner) fence(ctx context.Context, a *ledger.Attempt, tx *sql.Tx, rows []int, fences []ranges.Fenced) (ledger.AttemptState, error) {
	var err error
	for i := range fences {
		if err == nil {
			err = o.fenceRange(ctx, a, tx, &fences[i])
		}
	}
	tickets := a.Tickets()
	for _, i := range rows {
		if err == nil {
			err = o.fenceRow(ctx, tx, tickets[i], a.ResultAt(i))
		}
	}
	switch {
	case ledger.IsLost(err):
		return ledger.AttemptLost, fmt.Errorf("ledger/sqlite: InTx: %w", err)
	case err != nil:
		return ledger.AttemptOpen, fmt.Errorf("ledger/sqlite: InTx: the fence: %w", err)
	}
	return ledger.AttemptRunning, nil
}

func (o *owner) rollback(tx *fencedsql.Tx) {
	if err := ended(tx.Rollback()); err != nil {
		o.l.cfg.Logger.Warn("the rollback of an InTx failed", zap.String("owner", o.ID()), zap.Error(err))
	}
}

// resolve reads what became of a COMMIT whose answer, cause, was not that it is done. It is never repeated: that would
// mark as succeeded what was rolled back.
func (o *owner) resolve(ctx context.Context, tickets []ledger.Ticket, cause error) (ledger.AttemptState, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.l.cfg.hooks.settle)
	defer cancel()
	rows, err := o.readLocked(ctx, tickets)
	if err != nil {
		return ledger.AttemptUnknown, ledger.MarkUnknown(fmt.Errorf("ledger/sqlite: InTx: COMMIT: %w; reading its result: %w", cause, err))
	}
	switch state := ledger.DecideCommit(tickets, func(i int) *ledger.Row { return &rows[i] }); state {
	case ledger.AttemptSucceeded:
		_, fences := o.ranged.Fences(tickets)
		o.ranged.Committed(fences)
		return state, nil
	case ledger.AttemptOpen:
		return state, fmt.Errorf("ledger/sqlite: InTx: COMMIT: rolled back: %w", cause)
	case ledger.AttemptLost:
		return state, fmt.Errorf("ledger/sqlite: InTx: %w (COMMIT: %w)", ledger.ErrLost, cause)
	}
	return ledger.AttemptUnknown, ledger.MarkUnknown(fmt.Errorf("ledger/sqlite: InTx: COMMIT: %w; its rows contradict each other", cause))
}

// readLocked reads messages under the write lock, so that no transaction on them is still under way. A row that is gone
// is nobody's.
func (o *owner) readLocked(ctx context.Context, tickets []ledger.Ticket) ([]ledger.Row, error) {
	for {
		rows := make([]ledger.Row, len(tickets))
		err := o.run(ctx, len(tickets), func(b *batch) error {
			for i, t := range tickets {
				sum := t.Sum()
				r, err := b.row(sum[:], nil)
				if err != nil {
					return err
				}
				if r != nil {
					rows[i] = r.Row
					continue
				}
				if rows[i], err = b.rangeRow(t); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			return rows, nil
		}
		if pause(ctx) != nil {
			return nil, err
		}
	}
}
