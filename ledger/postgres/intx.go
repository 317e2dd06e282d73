package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
)

// ErrEscaped says that the handler ended InTx's transaction with SQL text, such as COMMIT through Exec. What it
// committed so stays, and the message is not settled: it will run again.
var ErrEscaped = errors.New(
	"postgres: the handler ended the transaction of InTx by itself (COMMIT or ROLLBACK as text): the message is not settled")

// ErrTxLimit says that a transaction of InTx outlived Config.TxLimit. It was rolled back.
var ErrTxLimit = errors.New("postgres: the transaction of InTx is over its time limit: rolled back")

var errAborted = errors.New("postgres: the transaction's function did not return: rolled back")

// InTx runs fn in a transaction of the pool that was given to [New], and settles the message of the attempt in ctx as
// succeeded in that transaction's commit: the effects of fn and the success are durable together, or neither is. It
// wraps the whole handler, once an attempt. [ledger.Attempt.SetResult] sets what is stored with the success. In a batch
// handler it is the effects and the success of all messages of the batch: if one of them is not ours any more, nothing
// is committed.
//
// The transaction is InTx's: Commit and Rollback on tx are refused, and doom it. Begin on tx makes savepoints. Nothing
// else may use tx once fn has returned. The last statement of the transaction is the fence, which writes the success
// only while the message is still this attempt's; COMMIT is sent when the fence's one row was read. Fence and commit
// run although ctx is cancelled meanwhile (shutdown, a lost lease): the fence alone decides.
//
// Errors: [ledger.ErrNoAttempt] outside of a handler; [ledger.ErrSettled] on a second call in one attempt, or once its
// handler has returned; [ledger.ErrLost] when the message is not ours any more; one for which [ledger.Unavailable] is true
// when the database cannot be reached, breaks off, or leaves the fence unanswered for Config.CommitLimit, which counts no
// attempt; one for which [ledger.Unknown] is true when the answer to COMMIT is lost and the row could not be read;
// [ErrEscaped]; [ErrTxLimit]; whatever fn returns, after a rollback. A panic of fn goes on after the rollback.
func InTx(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return transact(ctx, beginPgx, func(ctx context.Context, s session) error { return fn(ctx, s.(*pgxSession).tx) })
}

// InSQLTx is [InTx] for database/sql. After Commit or Rollback, both refused, the transaction is gone for fn as well.
func InSQLTx(ctx context.Context, fn func(ctx context.Context, tx *sql.Tx) error) error {
	return transact(ctx, beginSQL, func(ctx context.Context, s session) error { return fn(ctx, s.(*sqlSession).tx.SQL()) })
}

func transact(ctx context.Context, begin func(context.Context, *Ledger) (session, error),
	fn func(context.Context, session) error,
) error {
	a, ok := ledger.AttemptFrom(ctx)
	if !ok {
		return ledger.ErrNoAttempt
	}
	o, ok := ledger.Unwrap(a.Owner()).(*owner)
	if !ok {
		return fmt.Errorf("postgres: the attempt belongs to another store (%T)", ledger.Unwrap(a.Owner()))
	}
	if err := a.Begin(); err != nil {
		return err
	}
	state, err := ledger.AttemptOpen, errAborted
	defer func() { a.End(state, err) }() // also after a panic or a Goexit in fn
	r := &run{attempt: a, owner: o, ledger: o.ledger}
	state, err = r.do(ctx, begin, fn)
	return err
}

func (r *run) do(ctx context.Context, begin func(context.Context, *Ledger) (session, error),
	fn func(context.Context, session) error,
) (_ ledger.AttemptState, err error) {
	cfg := &r.ledger.cfg
	inner, cancel := context.WithTimeoutCause(ctx, cfg.TxLimit, ErrTxLimit)
	defer cancel()
	r.session, err = begin(inner, r.ledger)
	open := r.session != nil
	defer func() {
		if open {
			r.rollback(ctx)
		}
	}()
	if err != nil {
		return ledger.AttemptOpen, r.broken(inner, named("begin", err))
	}
	if err := fn(inner, r.session); err != nil {
		if errors.Is(context.Cause(inner), ErrTxLimit) && !errors.Is(err, ErrTxLimit) {
			err = fmt.Errorf("%w (limit %s): %w", ErrTxLimit, cfg.TxLimit, err)
		}
		return ledger.AttemptOpen, r.broken(inner, err)
	}
	if err := r.attempt.Commits(); err != nil {
		return ledger.AttemptOpen, err
	}
	if errors.Is(context.Cause(inner), ErrTxLimit) {
		return ledger.AttemptOpen, fmt.Errorf("%w (limit %s)", ErrTxLimit, cfg.TxLimit)
	}
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), cfg.CommitLimit)
	defer stop()
	if err := r.session.ending(cfg.CommitLimit); err != nil {
		return ledger.AttemptOpen, r.broken(inner, err)
	}
	if r.began, err = r.session.began(last); err != nil {
		return ledger.AttemptOpen, r.unanswered(ctx, last, named("begin", err))
	}
	if state, err := r.fence(ctx, last); err != nil {
		return state, err
	}
	open = false
	return r.commit(ctx, last)
}

// fence writes the success if the messages are still ours, until last ends; ctx is the handler's. Only all of them allow the
// commit.
func (r *run) fence(ctx, last context.Context) (ledger.AttemptState, error) {
	tickets := r.attempt.Tickets()
	r.rows, r.fences = r.owner.ranged.Fences(tickets)
	n, err := 0, error(nil)
	switch {
	case len(r.rows) == 1:
		n, err = r.fenceOne(last, tickets)
	case len(r.rows) > 1:
		n, err = r.fenceAll(last, tickets)
	}
	if err == nil && n == len(r.rows) && len(r.fences) > 0 {
		var more int
		more, err = r.fenceRanges(last, tickets)
		n += more
	}
	switch {
	case err == nil && n == len(tickets):
		return ledger.AttemptRunning, nil
	case err == nil:
		return r.unfenced(ctx, last, len(tickets)-n)
	case code(err) == codeSerialization:
		return r.serialization(last, err)
	case code(err) == codeUnique && len(r.fences) > 0: // somebody else's success is there
		return ledger.AttemptLost, r.lost(1)
	}
	return ledger.AttemptOpen, r.unanswered(ctx, last, fmt.Errorf("postgres: the fence failed, rolled back: %w", err))
}

// fenceOne returns how many rows it wrote, as fenceAll does.
func (r *run) fenceOne(ctx context.Context, tickets []ledger.Ticket) (int, error) {
	i := r.rows[0]
	t := tickets[i]
	result := ledger.CutResult(r.attempt.ResultAt(i), r.ledger.cfg.Limits.Result)
	var token int64
	var durable string
	err := r.session.tuned(ctx, r.ledger.sql(sqlTxFence),
		[]any{uuid(t.Sum()), int64(t.Token()), r.owner.id, r.began, result}, &token, &durable)
	switch {
	case isNoRows(err):
		return 0, nil
	case err == nil && uint64(token) != t.Token():
		return 0, nil
	}
	return 1, err
}

func (r *run) fenceAll(ctx context.Context, tickets []ledger.Ticket) (int, error) {
	n := len(r.rows)
	keys, tokens := make(keyArray, n), make([]int64, n)
	var results byteArray
	for at, i := range r.rows {
		keys[at], tokens[at] = uuid(tickets[i].Sum()), int64(tickets[i].Token())
		if result := r.attempt.ResultAt(i); result != nil {
			results = sized(results, n)
			results[at] = ledger.CutResult(result, r.ledger.cfg.Limits.Result)
		}
	}
	var written int
	var durable string
	err := r.session.tuned(ctx, r.ledger.sql(sqlTxFenceAll),
		[]any{keys, tokens, r.owner.id, r.began, orEmpty(results)}, &written, &durable)
	return written, err
}

// serialization is the end under REPEATABLE READ if somebody wrote a row since the transaction's snapshot. It is rolled
// back; who owns the rows now tells why. A success that they show is somebody else's, without these effects.
func (r *run) serialization(ctx context.Context, err error) (ledger.AttemptState, error) {
	err = fmt.Errorf("postgres: the fence, rolled back: %w", err)
	rows, unread := r.readRows(ctx)
	if unread != nil {
		return ledger.AttemptOpen, errors.Join(err, unread)
	}
	lost := 0
	for i, t := range r.attempt.Tickets() {
		fence := ledger.Settlement{Ticket: t, Kind: ledger.Succeed}
		if rows[i] != nil && ledger.DecideSettle(rows[i], fence) != ledger.EffectWrite {
			lost++
		}
	}
	if lost > 0 {
		return ledger.AttemptLost, r.lost(lost)
	}
	return ledger.AttemptOpen, err
}

// unfenced says why the fence did not meet all rows.
func (r *run) unfenced(ctx, last context.Context, missing int) (ledger.AttemptState, error) {
	var here bool
	if err := r.session.scan(last, sqlTxHere, []any{r.began}, &here); err != nil {
		return ledger.AttemptOpen, r.unanswered(ctx, last, fmt.Errorf("postgres: the fence missed %d rows, rolled back: %w", missing, err))
	}
	if !here {
		r.ledger.log.Error("a handler ended its transaction", r.fields(ErrEscaped)...)
		return ledger.AttemptOpen, ErrEscaped
	}
	return ledger.AttemptLost, r.lost(missing)
}

// commit commits. If the answer is lost it only reads what became of the transaction: to repeat it, or to settle
// instead, could mark as succeeded what was rolled back.
func (r *run) commit(ctx, last context.Context) (ledger.AttemptState, error) {
	sent, err := r.session.commit(last)
	if err == nil {
		r.owner.ranged.Committed(r.fences)
		return ledger.AttemptSucceeded, nil
	}
	if !sent || !commitUnknown(err) {
		return ledger.AttemptOpen, fmt.Errorf("postgres: commit refused, rolled back: %w", err)
	}
	r.ledger.log.Warn("the answer to a COMMIT is lost: reading what became of it", r.fields(err)...)
	reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.ledger.cfg.CommitLimit)
	defer cancel()
	return r.outcome(reading, fmt.Errorf("postgres: the answer to COMMIT is lost: %w", err))
}

// commitUnknown says whether a COMMIT that failed with err may have been carried out; [rolledBack] says why so much may.
func commitUnknown(err error) bool {
	return !errors.Is(err, pgx.ErrTxCommitRollback) && !rolledBack(err)
}

// outcomePause is how long a reading waits for its turn after one that came to nothing.
const outcomePause = 100 * time.Millisecond

// outcome reads, under the rows' locks, what became of a transaction that fenced them: as long as it is not over,
// nobody else gets those locks. It tries until ctx ends.
func (r *run) outcome(ctx context.Context, why error) (ledger.AttemptState, error) {
	for {
		state, err := r.readOutcome(ctx, why)
		if err == nil || state != ledger.AttemptUnknown {
			return state, err
		}
		select {
		case <-time.After(outcomePause):
		case <-ctx.Done():
			r.ledger.log.Error("what became of a transaction of InTx is not known: nothing of it is acknowledged",
				r.fields(err)...)
			return ledger.AttemptUnknown, ledger.MarkUnknown(errors.Join(why, err))
		}
	}
}

var errUnseen = errors.New("postgres: the rows of the transaction tell nothing: locked, gone, or at odds with each other")

func (r *run) readOutcome(ctx context.Context, why error) (ledger.AttemptState, error) {
	rows, err := r.readRows(ctx)
	if err != nil {
		return ledger.AttemptUnknown, err
	}
	state := ledger.DecideCommit(r.attempt.Tickets(), func(i int) *ledger.Row { return rows[i] })
	if len(r.fences) > 0 { // one transaction: the ranges tell of the rows, too
		if state, err = r.rangeOutcome(ctx); err != nil {
			return ledger.AttemptUnknown, err
		}
	}
	switch state {
	case ledger.AttemptSucceeded:
		if err := r.ledger.confirm(ctx); err != nil {
			return ledger.AttemptUnknown, err
		}
		r.owner.ranged.Committed(r.fences)
		return state, nil
	case ledger.AttemptOpen:
		return state, fmt.Errorf("rolled back: %w", why)
	case ledger.AttemptLost:
		return state, r.lost(1)
	}
	return ledger.AttemptUnknown, errUnseen
}

// readRows reads the attempt's rows as they are now; nil for one that is locked or gone.
func (r *run) readRows(ctx context.Context) ([]*ledger.Row, error) {
	tickets := r.attempt.Tickets()
	rows := make([]*ledger.Row, len(tickets))
	var place, token, holder int64
	var state int16
	err := r.ledger.read(ctx, sqlTxOutcome, []any{keysOf(tickets, ledger.Ticket.Sum)}, []any{&place, &state, &token, &holder}, func() {
		rows[place-1] = &ledger.Row{State: ledger.State(state), Token: uint64(token), Holder: holderOf(holder, r.owner.id)}
	})
	return rows, err
}
