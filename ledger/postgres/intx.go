package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// ErrEscaped says that the handler ended InTx's transaction with SQL text, such as COMMIT through Exec. What it
// committed so stays, and the message is not settled: it will run again.
var ErrEscaped = errors.New(
	"postgres: the handler ended the transaction of InTx by itself (COMMIT or ROLLBACK as text): the message is not settled")

// ErrTxLimit says that a transaction of InTx outlived Config.TxLimit. It was rolled back.
var ErrTxLimit = errors.New("postgres: the transaction of InTx is over its time limit: rolled back")

var errUnended = errors.New("postgres: the end of the transaction did not return")

var errAborted = errors.New("postgres: the transaction's function did not return: rolled back")

// InTx runs fn in a transaction of the pool that was given to [New], and settles the message of the attempt in ctx as
// succeeded in that transaction's commit: the effects of fn and the success are durable together, or neither is. It
// wraps the whole handler, once an attempt. [ledger.Attempt.SetResult] sets what is stored with the success. In a batch
// handler it is the effects and the success of all messages of the batch: if one of them is not ours any more, nothing
// is committed.
//
// The transaction is InTx's: Commit and Rollback on tx are refused, and doom it. Begin on tx makes savepoints. Nothing
// else may use tx once fn has returned.
//
// The transaction begins with fn's first statement, in the same round trip. An Exec without arguments, a savepoint, CopyFrom, Prepare and
// what is done with Conn take one more. An fn that runs no statement takes one round trip in all. A first statement with an argument that
// cannot be encoded dooms the transaction, as such a batch does.
//
// The last statement is the fence. It writes the success while the message is still this attempt's, and else fails, so that the COMMIT that
// is sent with it is a rollback. In a range COMMIT waits for the fence's answer where there is a result, where a batch is more than one span
// of one range, and once a message has left the range otherwise than by success. Fence and commit run although ctx is cancelled meanwhile
// (shutdown, a lost lease): the fence alone decides.
//
// Errors: [ledger.ErrNoAttempt] outside of a handler; [ledger.ErrSettled] on a second call in one attempt, or once its
// handler has returned; [ledger.ErrLost] when the message is not ours any more; one for which [ledger.Unavailable] is true
// when the database cannot be reached or breaks off, or the message's range changes just then, which counts no attempt; one for which
// [ledger.Unknown] is true when the answer to COMMIT is lost, and the row could not be read or does not have it yet: the ledger is asked
// again, and no attempt counted;
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
	r := &run{attempt: a, owner: o, ledger: o.ledger}
	defer func() { // also after a panic or a Goexit in fn
		if r.settling { // or in a tracer of the pool, or since something else uses the connection
			state, err = r.read(ctx, errUnended)
		}
		a.End(state, err)
	}()
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
	if r.session != nil {
		defer r.close(ctx)
	}
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
	r.settling = true
	state, err := r.settle(ctx, last)
	r.settling = false
	return state, err
}

// settle writes the success if the messages are still ours, and commits, until last ends; ctx is the handler's. What the sets of a range
// say of its messages is read between the two.
func (r *run) settle(ctx, last context.Context) (ledger.AttemptState, error) {
	tickets := r.attempt.Tickets()
	r.rows, r.fences = r.owner.ranged.Fences(tickets)
	r.mark = r.session.mark()
	r.outgoing = r.attempt.Outgoing()
	if len(r.fences) == 0 {
		return r.flush(ctx, last, r.fenceOf(tickets))
	}
	if state, err, ok := r.whole(ctx, last); ok {
		return state, err
	}
	if err := r.session.begin(last); err != nil {
		return ledger.AttemptOpen, r.unanswered(ctx, last, named("begin", err))
	}
	r.mark = r.session.mark()
	if s := r.ledger.published(r.mark.at(), r.outgoing); s != nil {
		if err := r.session.publish(last, s); err != nil {
			return r.unfenced(ctx, last, true, err)
		}
	}
	if len(r.rows) > 0 {
		f := r.fenceOf(tickets)
		if here, err := r.session.fence(last, f); err != nil {
			return r.unfenced(ctx, last, here, err)
		}
	}
	switch here, ours, err := r.fenceRanges(last, tickets); {
	case err != nil:
		return r.unfenced(ctx, last, here, err)
	case !ours:
		return r.missed(here)
	}
	sent, err := r.session.commit(last)
	return r.committed(ctx, sent, err)
}

// fenceOf is the fence of the messages that have rows.
func (r *run) fenceOf(tickets []ledger.Ticket) *fence {
	limit := r.ledger.cfg.Limits.Result
	f := &fence{began: r.mark.at(), tune: sqlTxTune, dest: []any{new(int64)}}
	if len(r.rows) == 1 {
		f.tune = sqlTxTuneOne
		i := r.rows[0]
		f.sql = r.ledger.sql(sqlTxFence)
		f.args = []any{uuid(tickets[i].Sum()), int64(tickets[i].Token()), r.owner.id, f.began, storage.CutResult(r.attempt.ResultAt(i), limit)}
		return f
	}
	n := len(r.rows)
	keys, tokens := make(keyArray, n), make([]int64, n)
	var results byteArray
	for at, i := range r.rows {
		keys[at], tokens[at] = uuid(tickets[i].Sum()), int64(tickets[i].Token())
		if result := r.attempt.ResultAt(i); result != nil {
			results = sized(results, n)
			results[at] = storage.CutResult(result, limit)
		}
	}
	f.sql, f.args = r.ledger.sql(sqlTxFenceAll), []any{keys, tokens, r.owner.id, f.began, orEmpty(results)}
	return f
}

// flush sends a fence with its COMMIT, and says what came of them.
func (r *run) flush(ctx, last context.Context, f *fence) (ledger.AttemptState, error) {
	r.late = true // if that does not return
	f.ahead = r.ledger.published(f.began, r.outgoing)
	here, sent, err := r.session.settle(last, f)
	r.mark, r.late = r.session.mark(), !f.met
	if err != nil && !f.met && (!sent || rolledBack(err)) {
		return r.unfenced(ctx, last, here, err)
	}
	return r.committed(ctx, sent, err)
}

// whole settles an attempt all of whose messages are one span of one range, if nothing of that needs to be read before COMMIT; false: it
// does.
func (r *run) whole(ctx, last context.Context) (state ledger.AttemptState, err error, ok bool) {
	fenced := &r.fences[0]
	if len(r.rows) > 0 || len(r.fences) > 1 || len(fenced.Offsets.Spans()) > 1 || slices.ContainsFunc(fenced.Items, r.hasResult) {
		return 0, nil, false
	}
	done, ok := r.owner.ranged.BeginFence(fenced)
	if !ok {
		return 0, nil, false
	}
	defer func() { // also after a panic of a tracer: settlements wait for it
		lost := state == ledger.AttemptLost
		if altered := r.owner.ranged.EndFence(fenced, !lost); altered && lost {
			state, err = ledger.AttemptOpen, ledger.MarkUnavailable(errAltered)
		}
	}()
	span := fenced.Offsets.Spans()[0]
	state, err = r.flush(ctx, last, &fence{began: r.mark.at(), tune: sqlTxTuneOne, sql: r.ledger.sql(sqlRangeFenceOne), dest: []any{new(int64)},
		args: []any{logKey(fenced.Log), int64(fenced.Token), r.owner.id, r.mark.at(), span.From, span.To, done}})
	return state, err, true
}

// errAltered says that a range was written while one of its messages was fenced: the next attempt goes by what it is now.
var errAltered = errors.New("postgres: the message's range has changed at the end of its transaction: rolled back")

func (r *run) hasResult(item int) bool { return r.attempt.ResultAt(item) != nil }

// unfenced says why a fence has failed; here: it was in the transaction that began.
func (r *run) unfenced(ctx, last context.Context, here bool, err error) (ledger.AttemptState, error) {
	switch {
	case unmet(err):
		return r.missed(here)
	case errors.Is(err, pgx.ErrTxClosed): // pgx has seen the handler end it
		return r.missed(false)
	case code(err) == codeSerialization:
		return r.serialization(last, err)
	case code(err) == codeUnique && len(r.fences) > 0: // somebody else's success is there
		return ledger.AttemptLost, r.lost(1)
	}
	return ledger.AttemptOpen, r.unanswered(ctx, last, fmt.Errorf("postgres: the fence failed, rolled back: %w", err))
}

// missed is the end of a transaction whose fence has not met all of its messages.
func (r *run) missed(here bool) (ledger.AttemptState, error) {
	if !here {
		r.ledger.log.Error("a handler ended its transaction", r.fields(ErrEscaped)...)
		return ledger.AttemptOpen, ErrEscaped
	}
	return ledger.AttemptLost, r.lost(1)
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
	if len(r.fences) == 0 {
		return ledger.AttemptOpen, err
	}
	switch state, unread := r.rangeOutcome(ctx); {
	case unread != nil:
		return ledger.AttemptOpen, errors.Join(err, unread)
	case state != ledger.AttemptOpen:
		return ledger.AttemptLost, r.lost(1)
	}
	return ledger.AttemptOpen, ledger.MarkUnavailable(err) // another message has left the range, which is no failure of these
}

// committed says what came of a COMMIT. If its answer is lost what became of the transaction is only read: to repeat it, or to settle
// instead, could mark as succeeded what was rolled back.
func (r *run) committed(ctx context.Context, sent bool, err error) (ledger.AttemptState, error) {
	if err == nil {
		r.owner.ranged.Committed(r.fences)
		return ledger.AttemptSucceeded, nil
	}
	if !sent || !commitUnknown(err) {
		return ledger.AttemptOpen, fmt.Errorf("postgres: commit refused, rolled back: %w", err)
	}
	r.ledger.log.Warn("the answer to a COMMIT is lost: reading what became of it", r.fields(err)...)
	state, err := r.read(ctx, fmt.Errorf("postgres: the answer to COMMIT is lost: %w", err))
	if r.late && state == ledger.AttemptOpen && ctx.Err() == nil { // as where the fence alone is not answered
		err = ledger.MarkUnavailable(err)
	}
	return state, err
}

// commitUnknown says whether a COMMIT that failed with err may have been carried out; [rolledBack] says why so much may.
func commitUnknown(err error) bool {
	return !errors.Is(err, pgx.ErrTxCommitRollback) && !rolledBack(err)
}

// lateLimit is how long the end of a server process is waited for whose connection is gone.
const lateLimit = time.Second

// outcomePause is how long a reading waits for its turn after one that came to nothing.
const outcomePause = 100 * time.Millisecond

// read is outcome, in a time of its own.
func (r *run) read(ctx context.Context, why error) (ledger.AttemptState, error) {
	reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.ledger.cfg.CommitLimit)
	defer cancel()
	return r.outcome(reading, why)
}

// outcome reads, under the rows' locks, what became of a transaction that fenced them: as long as it is not over,
// nobody else gets those locks. It tries until ctx ends.
func (r *run) outcome(ctx context.Context, why error) (ledger.AttemptState, error) {
	for began := time.Now(); ; {
		state, err := r.readOutcome(ctx, why)
		if err == nil || state != ledger.AttemptUnknown || errors.Is(err, errNotYet) && time.Since(began) > lateLimit {
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

// errNotYet says that the rows are as they were, and that the fence, which was sent with its COMMIT, may still be on its way. The end of
// its server process says that it is not; else the next claim shuts it out, by its token.
var errNotYet = errors.New("postgres: the transaction is not committed, and still may be")

var errUnseen = errors.New("postgres: the rows of the transaction tell nothing: locked, gone, or at odds with each other")

func (r *run) readOutcome(ctx context.Context, why error) (ledger.AttemptState, error) {
	there := r.late
	if r.late && r.mark.backend != 0 { // asked first: what it has done until its end is in the rows
		if err := r.ledger.own.QueryRow(ctx, sqlTxThere, r.mark.backend).Scan(&there); err != nil {
			return ledger.AttemptUnknown, err
		}
	}
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
		if there {
			return ledger.AttemptUnknown, ledger.MarkUnknown(fmt.Errorf("%w: %w", errNotYet, why))
		}
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
