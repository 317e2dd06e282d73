package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

var errAborted = errors.New("the transaction's function did not return")

// askAgain is how long a fence waits before it reads once more what became of its transaction.
const askAgain = 50 * time.Millisecond

// Fence makes the success of one attempt's messages part of a transaction of the handler's. It is used by one goroutine.
type Fence struct {
	o      *owner
	a      *ledger.Attempt
	rows   []int
	fences []ranges.Fenced
}

// Begin is where a store's InTx begins: it finds the attempt of ctx and its store. Errors: [ledger.ErrNoAttempt] outside of
// a handler, [ledger.ErrSettled] on a second call in one attempt, or once its handler has returned, and one that names the
// owner's type if the attempt is of another kind of store. Then nothing has begun; else [Fence.Run] is to be called.
func Begin[S Store](ctx context.Context) (f *Fence, store S, err error) {
	a, ok := ledger.AttemptFrom(ctx)
	if !ok {
		return nil, store, ledger.ErrNoAttempt
	}
	o, ok := ledger.Unwrap(a.Owner()).(*owner)
	if ok {
		store, ok = o.l.store.(S)
	}
	if !ok {
		return nil, store, fmt.Errorf("ledger/driver: the attempt belongs to another store (%T)", a.Owner())
	}
	if err := a.Begin(); err != nil {
		return nil, store, err
	}
	return &Fence{o: o, a: a}, store, nil
}

// Run runs the transaction, and tells the attempt how it ended, also if run panics. [ledger.AttemptUnknown] is for a COMMIT
// without an answer: then what became of it is read under the locks of its rows, for so long at most; it is never repeated,
// for that would mark as succeeded what was rolled back.
func (f *Fence) Run(ctx context.Context, limit time.Duration, run func() (ledger.AttemptState, error)) (err error) {
	state := ledger.AttemptOpen
	err = f.o.l.named("InTx", errAborted)
	defer func() { f.a.End(state, err) }() // also after a panic or a Goexit
	state, err = run()
	if state == ledger.AttemptUnknown {
		state, err = f.resolve(ctx, limit, err)
	}
	return err
}

// Commits is called once the transaction's function has returned nil: an error is to roll back, and is InTx's.
func (f *Fence) Commits() error { return f.a.Commits() }

// Check says whether Write would write, and writes nothing: [ledger.ErrLost] if not. For stores that cannot roll back.
func (f *Fence) Check(tx Tx) error {
	f.sort()
	for i := range f.fences {
		if _, err := f.fenced(tx, &f.fences[i]); err != nil {
			return err
		}
	}
	for _, i := range f.rows {
		if _, err := f.ours(tx, i); err != nil {
			return err
		}
	}
	return nil
}

// Write is the last that the transaction does before it commits: it writes the successes of all messages, if each is the
// attempt's still, and what was published ([OutboxTx]). Else it answers an error for which [ledger.IsLost] is true, and the transaction is to be rolled back.
func (f *Fence) Write(tx Tx) error {
	f.sort()
	for i := range f.fences {
		if err := f.writeRange(tx, &f.fences[i]); err != nil {
			return err
		}
	}
	for _, i := range f.rows {
		if err := f.writeRow(tx, i); err != nil {
			return err
		}
	}
	return f.publish(tx)
}

// Committed is told once the transaction has committed.
func (f *Fence) Committed() { f.o.ranged.Committed(f.fences) }

// Owner names the owner in logs.
func (f *Fence) Owner() string { return f.o.ID() }

// sort finds out which messages lie in ranges now.
func (f *Fence) sort() {
	if f.rows == nil && f.fences == nil {
		f.rows, f.fences = f.o.ranged.Fences(f.a.Tickets())
	}
}

// ours reads a message that has a row, if it is the attempt's still. One that succeeded already is not: not with these effects.
func (f *Fence) ours(tx Tx, i int) (*Message, error) {
	t := f.a.Tickets()[i]
	m, err := tx.Message(t.Sum(), nil)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, ranges.Lost(t)
	}
	row, err := sees(tx, f.o.id, m)
	if err != nil {
		return nil, err
	}
	if ledger.DecideSettle(row, ledger.Settlement{Ticket: t, Kind: ledger.Succeed}) != ledger.EffectWrite {
		return nil, ranges.Lost(t)
	}
	return m, nil
}

func (f *Fence) writeRow(tx Tx, i int) error {
	t, limits := f.a.Tickets()[i], &f.o.l.cfg.Limits
	done, err := tx.Succeed(t.Sum(), t.Token(), f.o.id, storage.CutResult(f.a.ResultAt(i), limits.Result), tx.Now().Add(foldAfter))
	if done {
		err = f.o.unpark(tx, t, nil)
	}
	if err != nil || done {
		return err
	}
	m, err := f.ours(tx, i)
	if err != nil {
		return err
	}
	return f.o.finish(tx, m, &ledger.Settlement{Ticket: t, Kind: ledger.Succeed, Result: f.a.ResultAt(i)})
}

// fenced reads the range of some messages, if it is still this owner's and none of them has left it.
func (f *Fence) fenced(tx Tx, fence *ranges.Fenced) (*Range, error) {
	list, err := tx.Ranges(nil, fence.Log, Span{}, []uint64{fence.Token})
	if err != nil {
		return nil, err
	}
	if len(list) != 1 || list[0].Owner != f.o.id {
		return nil, fmt.Errorf("%w: range %d of log %x", ledger.ErrLost, fence.Token, fence.Log)
	}
	r := &list[0]
	for _, s := range fence.Offsets.Spans() {
		if !r.Contains(s) || r.Done.Meets(s) || r.Back.Meets(s) {
			return nil, fmt.Errorf("%w: offsets %d to %d of log %x, token %d", ledger.ErrLost, s.From, s.To-1, fence.Log, fence.Token)
		}
	}
	return r, nil
}

// writeRange writes the successes that lie in one range; a result needs a row.
func (f *Fence) writeRange(tx Tx, fence *ranges.Fenced) error {
	r, err := f.fenced(tx, fence)
	if err != nil {
		return err
	}
	tickets := f.a.Tickets()
	for _, i := range fence.Items {
		if f.a.ResultAt(i) == nil {
			continue
		}
		_, offset := ranges.SplitSum(tickets[i].Sum())
		row := &ranges.Row{Offset: offset, Token: fence.Token, At: r.At, Expiry: r.At.Add(r.Window)}
		if err := insertRow(tx, &Log{Info: fence.Info}, row, f.o.id); err != nil {
			return err
		}
		if err := f.writeRow(tx, i); err != nil {
			return err
		}
	}
	r.Done.AddAll(fence.Offsets)
	return tx.PutRange(fence.Log, r)
}

// resolve reads what became of a COMMIT whose answer, cause, was not that it is done.
func (f *Fence) resolve(ctx context.Context, limit time.Duration, cause error) (ledger.AttemptState, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	tickets := f.a.Tickets()
	rows, err := f.read(ctx, tickets)
	if err != nil {
		return ledger.AttemptUnknown, ledger.MarkUnknown(f.o.l.named("InTx: COMMIT", fmt.Errorf("%w; reading its result: %w", cause, err)))
	}
	switch state := ledger.DecideCommit(tickets, func(i int) *ledger.Row { return &rows[i] }); state {
	case ledger.AttemptSucceeded:
		_, fences := f.o.ranged.Fences(tickets)
		f.o.ranged.Committed(fences)
		return state, nil
	case ledger.AttemptOpen:
		return state, f.o.l.named("InTx: COMMIT: rolled back", cause)
	case ledger.AttemptLost:
		return state, f.o.l.named("InTx", fmt.Errorf("%w (COMMIT: %w)", ledger.ErrLost, cause))
	}
	return ledger.AttemptUnknown, ledger.MarkUnknown(f.o.l.named("InTx: COMMIT", fmt.Errorf("%w; its rows contradict each other", cause)))
}

// read reads messages in a transaction that writes, so that none on them is still under way.
func (f *Fence) read(ctx context.Context, tickets []ledger.Ticket) ([]ledger.Row, error) {
	call := Call{Op: Settle, Keys: keysOf(tickets, func(t *ledger.Ticket) Key { return t.Sum() }), Messages: len(tickets)}
	for {
		rows := make([]ledger.Row, len(tickets))
		err := f.o.l.store.Update(ctx, call, func(tx Tx) error {
			for i, t := range tickets {
				row, err := f.row(tx, t)
				if err != nil {
					return err
				}
				rows[i] = row
			}
			return nil
		})
		if err == nil {
			return rows, nil
		}
		select {
		case <-time.After(askAgain):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// row is a message as it is now. One that is gone is nobody's.
func (f *Fence) row(tx Tx, t ledger.Ticket) (ledger.Row, error) {
	m, err := tx.Message(t.Sum(), nil)
	if err != nil {
		return ledger.Row{}, err
	}
	if m != nil {
		row, err := sees(tx, f.o.id, m)
		return *row, err
	}
	rec, owner, err := known(tx, t.Sum())
	if rec == nil || err != nil {
		return ledger.Row{}, err
	}
	row := ledger.Row{State: rec.State, Token: rec.Token}
	if rec.State == ledger.Succeeded { // nobody but this owner can have brought it about, while the range is its own
		row.Token = t.Token()
	}
	if owner == f.o.id {
		row.Holder = ledger.Mine
	}
	return row, nil
}
