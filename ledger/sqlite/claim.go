package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/ackledger/ackledger/ledger"
)

// Claim implements [ledger.Owner].
func (o *owner) Claim(ctx context.Context, entries []ledger.Entry) ([]ledger.Claim, error) {
	return o.ClaimRows(ctx, entries, nil)
}

// ClaimRows implements [ranges.Store]. If the write lock is not free until ctx's deadline, because an InTx of some process
// holds it, every entry is Busy: nothing was written.
func (o *owner) ClaimRows(ctx context.Context, entries []ledger.Entry, only []bool) ([]ledger.Claim, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	claims, ask := checkEntries(entries)
	if len(ask) == 0 && len(entries) > 0 {
		return claims, nil
	}
	err := o.runLive(ctx, len(ask), func(b *batch) error {
		for _, i := range ask {
			if err := b.claim(&entries[i], &claims[i], only != nil && only[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, ErrBusy) {
		claims, _ = checkEntries(entries)
		return claims, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ledger/sqlite: claim by owner %d: %w", o.id, err)
	}
	return claims, nil
}

// checkEntries makes the answers for entries that need no asking (refused ones, and all but the first of a repeated
// key, which are Busy), and lists the others.
func checkEntries(entries []ledger.Entry) (claims []ledger.Claim, ask []int) {
	claims = make([]ledger.Claim, len(entries))
	ask = make([]int, 0, len(entries))
	seen := make(map[[ledger.KeySize]byte]struct{}, len(entries))
	for i := range entries {
		if claims[i].Err = ledger.CheckEntry(&entries[i]); claims[i].Err != nil {
			continue
		}
		sum := entries[i].Key.Sum()
		if _, ok := seen[sum]; ok {
			continue
		}
		seen[sum] = struct{}{}
		claims[i].Ticket = ledger.NewTicket(sum, 0) // carries the sum to claim, which replaces it
		ask = append(ask, i)
	}
	return claims, ask
}

// claim answers one entry; with only, a message without a row gets none. Most messages are new, so the insert comes
// first: it is the decision about no row.
func (b *batch) claim(e *ledger.Entry, c *ledger.Claim, only bool) error {
	sum := c.Ticket.Sum()
	c.Ticket = ledger.Ticket{}
	if only {
		return b.claimThere(sum, e, c, true)
	}
	scope, err := b.scope(e.Key.Scope)
	if err != nil {
		return err
	}
	fresh := ledger.Decide(nil, *e)
	n, err := b.exec(b.o.l.stmts.insert, sum[:], scope, e.Key.ID, e.Fingerprint[:], int64(fresh.Token), b.o.id,
		fresh.Attempts, fresh.Crashes, b.now.UnixMicro(), b.now.Add(e.Window).UnixMicro())
	if err != nil {
		return fmt.Errorf("inserting %v: %w", e.Key, err)
	}
	if n == 1 {
		answer(c, sum, fresh)
		return nil
	}
	return b.claimThere(sum, e, c, false)
}

// claimThere answers for a row that is there, or may be.
func (b *batch) claimThere(sum [ledger.KeySize]byte, e *ledger.Entry, c *ledger.Claim, may bool) error {
	r, err := b.row(sum[:], e.Delivery)
	if err != nil {
		return err
	}
	if r == nil && may {
		return nil
	}
	if r == nil {
		return fmt.Errorf("%v: neither inserted nor found", e.Key)
	}
	d := ledger.Decide(&r.Row, *e)
	if err := b.take(sum[:], e, d); err != nil {
		return fmt.Errorf("taking %v: %w", e.Key, err)
	}
	answer(c, sum, d)
	switch {
	case d.Answer == ledger.Done:
		c.Outcome = ledger.Outcome{State: r.State, Result: r.result}
	case d.Write:
		c.Generation = r.generation
		if !d.Renew {
			c.Errors, err = ledger.DecodeErrors(r.errors)
		}
	}
	return err
}

// take writes what was decided about an existing row.
func (b *batch) take(sum []byte, e *ledger.Entry, d ledger.Decision) error {
	if !d.Write {
		return nil
	}
	s, args := b.o.l.stmts.take, []any{sum, b.o.id, int64(d.Token), d.Attempts, d.Crashes, e.Fingerprint[:]}
	if d.Renew {
		s, args = b.o.l.stmts.renew, append(args, b.now.UnixMicro(), b.now.Add(e.Window).UnixMicro())
	}
	n, err := b.exec(s, args...)
	if err == nil && n != 1 {
		err = fmt.Errorf("%d rows changed, want 1", n)
	}
	return err
}

func answer(c *ledger.Claim, sum [ledger.KeySize]byte, d ledger.Decision) {
	c.Answer, c.Wait, c.Suspect, c.Uncertain, c.TookOver = d.Answer, d.Wait, d.Suspect, d.Uncertain, d.TookOver
	c.Held, c.First = d.Held, d.First
	if d.Answer == ledger.Mismatch {
		c.Ticket = ledger.MismatchTicket(sum)
	}
	if d.Write {
		c.Ticket, c.Token, c.Crashes = ledger.NewTicket(sum, d.Token), d.Token, d.Crashes
	}
	if d.Answer == ledger.Run {
		c.Attempt = d.Attempts + 1
	}
}
