package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ackledger/ackledger/ledger"
)

// Settle implements [ledger.Owner]. If the write lock is not free until ctx's deadline, because an InTx of some process
// holds it, each settlement gets [ErrBusy]: nothing was written, and repeating it is all there is to do. The call itself
// has an answer: without one it would be an outage.
func (o *owner) Settle(ctx context.Context, settlements []ledger.Settlement) ([]error, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	errs := make([]error, len(settlements))
	dead := make([]*deadRow, len(settlements)) // encoded before the file is locked
	for i := range settlements {
		s := &settlements[i]
		if errs[i] = ledger.CheckSettlement(s, o.l.cfg.Limits); errs[i] == nil && s.Kind == ledger.Fail {
			dead[i], errs[i] = encodeArchive(s.Dead, o.l.cfg.Limits)
		}
	}
	err := o.run(ctx, len(settlements), func(b *batch) error {
		for i := range settlements {
			if errs[i] != nil {
				continue
			}
			effect, err := b.settle(&settlements[i], dead[i])
			if err != nil {
				return err
			}
			if effect == ledger.EffectLost {
				errs[i] = ledger.ErrLost
			}
		}
		return nil
	})
	if errors.Is(err, ErrBusy) { // before anything was looked at
		for i := range errs {
			errs[i] = cmp.Or(errs[i], err)
		}
		return errs, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ledger/sqlite: settle by owner %d: %w", o.id, err)
	}
	return errs, nil
}

// settle carries one settlement out. A success is tried at once: the statement's guard is the table's.
func (b *batch) settle(s *ledger.Settlement, dead *deadRow) (ledger.Effect, error) {
	sum := s.Ticket.Sum()
	if s.Kind == ledger.Succeed {
		n, err := b.exec(b.o.l.stmts.succeed, sum[:], int64(s.Ticket.Token()), b.o.id, ledger.CutResult(s.Result, b.o.l.cfg.Limits.Result),
			b.now.Add(foldAfter).UnixMicro())
		if err != nil || n == 1 {
			return ledger.EffectWrite, err
		}
	}
	var delivery []byte
	if s.Dead != nil {
		delivery = s.Dead.Delivery
	}
	r, err := b.row(sum[:], delivery)
	if err != nil {
		return ledger.EffectLost, err
	}
	var seen *ledger.Row
	if r != nil {
		seen = &r.Row
	}
	effect := ledger.DecideSettle(seen, *s)
	switch {
	case effect == ledger.EffectFile:
		err = b.file(s, dead, 0)
	case effect == ledger.EffectWrite && s.Kind == ledger.Fail:
		err = b.fail(s, dead, r)
	case effect == ledger.EffectWrite && s.Kind == ledger.Release:
		err = b.release(s, r)
	case effect == ledger.EffectWrite:
		err = fmt.Errorf("message %x: the guard of a success and the table disagree", sum)
	}
	return effect, err
}

func (b *batch) release(s *ledger.Settlement, r *row) error {
	var due sql.NullInt64
	if s.After > 0 {
		due = sql.NullInt64{Int64: b.now.Add(s.After).UnixMicro(), Valid: true}
	}
	attempts, list := r.Attempts, r.errors
	if s.Count {
		old, err := ledger.DecodeErrors(r.errors)
		if err != nil {
			return err
		}
		attempts, list = attempts+1, ledger.EncodeErrors(ledger.AppendError(old, s.Failure, b.o.l.cfg.Limits.Errors))
	}
	return b.one(b.o.l.stmts.release, s, due, attempts, list)
}

func (b *batch) fail(s *ledger.Settlement, dead *deadRow, r *row) error {
	if err := b.file(s, dead, r.generation); err != nil {
		return err
	}
	return b.one(b.o.l.stmts.fail, s, s.Dead.Delivery)
}

// one executes a guarded statement that must change its one row: nothing can have changed since it was read.
func (b *batch) one(stmt *sql.Stmt, s *ledger.Settlement, args ...any) error {
	sum := s.Ticket.Sum()
	n, err := b.exec(stmt, append([]any{sum[:], int64(s.Ticket.Token()), b.o.id}, args...)...)
	if err == nil && n != 1 {
		err = fmt.Errorf("message %x: %d rows changed, want 1", sum, n)
	}
	return err
}
