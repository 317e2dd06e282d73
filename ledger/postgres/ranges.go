package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

var (
	_ ranges.Store  = (*owner)(nil)
	_ ranges.Closer = (*owner)(nil)
)

// codeLate is the SQLSTATE (division by zero) of writes that came after their deadline: sqlRangeInTime.
const codeLate = "22012"

// Open implements [ranges.Store].
func (o *owner) Open(ctx context.Context, openings []ranges.Opening) ([]bool, error) {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	var moved []int64
	if err := o.short(ctx, sqlRangeOpen, o.openArgs(openings, o.deadline(ctx)), &moved); err != nil {
		return nil, err
	}
	opened, at := make([]bool, len(openings)), among(moved)
	for i := range openings {
		opened[i] = at[logKey(openings[i].Log)]
	}
	return opened, nil
}

// Close implements [ranges.Closer].
func (o *owner) Close(ctx context.Context, closings []ranges.Closing) ([]bool, error) {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	n := len(closings)
	logs, tokens, segments := make([]int64, n), make([]int64, n), make([]int64, n)
	firsts, lasts, messages, keeps := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	for i := range closings {
		c := &closings[i]
		logs[i], tokens[i], segments[i] = logKey(c.Log), int64(c.Token), c.Segment
		firsts[i], lasts[i], messages[i], keeps[i] = c.Range.From, c.Range.To, c.Messages, c.Window.Microseconds()
	}
	var gone, grown []int64
	args := []any{o.id, o.deadline(ctx), milliseconds(o.ledger.cfg.LockWait), logs, tokens, segments, firsts, lasts, messages, keeps}
	if err := o.short(ctx, sqlRangeOver, args, &gone, &grown); err != nil {
		return nil, err
	}
	if len(gone) != len(grown) {
		return nil, ledger.MarkUnknown(fmt.Errorf("%w: %d of %d segments", errMissed, len(grown), len(gone)))
	}
	closed, at := make([]bool, n), among(gone)
	for i := range closings {
		closed[i] = at[logs[i]]
	}
	return closed, nil
}

// short sends a statement that goes ahead: one round trip instead of two. It answers nothing if the database gave the
// statement up for others' sake: a look at the logs says more.
func (o *owner) short(ctx context.Context, query string, args []any, dest ...any) error {
	var fate int32
	var inTime bool
	switch err := o.ledger.one(ctx, query, args, append([]any{&fate, &inTime}, dest...)...); {
	case errors.Is(err, pgx.ErrNoRows):
		return claimState{}.check(o)
	case refused(err):
		return nil
	case err != nil:
		return fmt.Errorf("postgres: ranges: %w", err)
	}
	return (claimState{answered: true, live: fate == 1, inTime: inTime}).check(o)
}

// openArgs lines up the parameters of sqlRangeOpen.
func (o *owner) openArgs(openings []ranges.Opening, until int64) []any {
	n := len(openings)
	logs, known, versions := make([]int64, n), make([]int64, n), make([]int64, n)
	tokens, tops := make([]int64, n), make([]int64, n)
	var r rangeArgs
	for i := range openings {
		c := &openings[i].Change
		logs[i], known[i], versions[i] = logKey(openings[i].Log), int64(openings[i].Version), int64(c.Version)
		tokens[i], tops[i] = int64(c.Token), c.Top
		for j := range c.Open {
			r.add(logs[i], &c.Open[j])
		}
	}
	return []any{o.id, until, milliseconds(o.ledger.cfg.LockWait), logs, known, versions, tokens, tops,
		orEmpty(r.logs), orEmpty(r.tokens), orEmpty(r.firsts), orEmpty(r.lasts), orEmpty(r.messages), orEmpty(r.keeps), orEmpty(r.dones)}
}

// Update implements [ranges.Store]. A log or range that another transaction holds for longer than Config.LockWait is
// left alone, and its facts say so; the others are carried out all the same.
func (o *owner) Update(ctx context.Context, queries []ranges.Query, plan func(int, *ranges.Facts) ranges.Change) error {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	o.opens.Store(true)
	u := &update{ledger: o.ledger, me: o.id, queries: queries, plan: plan, scopes: make(map[string]int32, 1)}
	for i := range queries {
		u.scopes[queries[i].Info.Scope] = 0
	}
	if err := o.ledger.numbers(ctx, u.scopes); err != nil {
		return err
	}
	u.until = o.deadline(ctx)
	return u.run(ctx)
}

func (u *update) run(ctx context.Context) error {
	var err error
	turns := []bool{true, false, false}
	if u.settles() { // which is worth waiting for
		turns = []bool{true, true, true, true, true, false}
	}
	for i, patient := range turns {
		u.patient, u.makes = patient, i+1 < len(turns)
		s := &splitter{exec: func(ctx context.Context, _ []int32, wait time.Duration) error { return u.exec(ctx, wait) }}
		err = s.try(ctx, nil, u.ledger.cfg.LockWait)
		if again := code(err) == codeLockTimeout || errors.Is(err, errReplaced); !again || ledger.Unknown(err) {
			return err
		}
	}
	u.ledger.log.Debug("logs are held by another transaction: busy", zap.Error(err))
	for i := range u.queries {
		u.plan(i, &ranges.Facts{Locked: true})
	}
	return nil
}

// exec reads, plans and writes in one transaction.
func (u *update) exec(ctx context.Context, wait time.Duration) (err error) {
	conn, err := u.ledger.own.Acquire(ctx)
	if err != nil {
		return notSent(err)
	}
	defer conn.Release()
	defer u.rollback(ctx, conn)
	seen, err := u.read(ctx, conn, wait)
	switch {
	case err != nil:
		return fmt.Errorf("postgres: read ranges: %w", usable(err)) // nothing was written
	case u.me != 0 && seen.fate != 1:
		return claimState{}.check(&owner{ledger: u.ledger, id: u.me})
	case !seen.inTime:
		return errLate
	}
	w := &rangeWrite{update: u}
	for i := range u.queries {
		f := &seen.facts[i]
		change := u.plan(i, f)
		if !f.Locked {
			w.add(&u.queries[i], f, &change, seen.owners[i])
		}
	}
	err = w.send(ctx, conn) // also if there is nothing to write: the lock's COMMIT waits for what was read
	if code(err) == codeLate {
		return errLate
	}
	if err != nil {
		return fmt.Errorf("postgres: write ranges: %w", sent(err))
	}
	return nil
}

// rollback ends a transaction that was not committed, so that its connection can be used again.
func (u *update) rollback(ctx context.Context, conn *pgxpool.Conn) {
	if conn.Conn().IsClosed() || conn.Conn().PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	if _, err := conn.Exec(ctx, "rollback"); err != nil {
		u.ledger.log.Debug("rolling back a transaction of ranges; its connection is closed", zap.Error(err))
	}
}
