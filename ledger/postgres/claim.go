package postgres

import (
	"context"

	"go.uber.org/zap"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// Claim implements [ledger.Owner].
func (o *owner) Claim(ctx context.Context, entries []ledger.Entry) ([]ledger.Claim, error) {
	return o.ClaimRows(ctx, entries, nil)
}

// ClaimRows implements [ranges.Store].
func (o *owner) ClaimRows(ctx context.Context, entries []ledger.Entry, only []bool) ([]ledger.Claim, error) {
	ctx, cancel := storage.WithDeadline(ctx)
	defer cancel()
	c := &claimCall{owner: o, entries: entries, only: only, out: make([]ledger.Claim, len(entries))}
	asked := c.check()
	if len(asked) == 0 {
		return c.out, nil
	}
	c.scopes = scopeNames(entries, asked)
	if err := o.ledger.numbers(ctx, c.scopes); err != nil {
		return nil, err
	}
	c.until = o.deadline(ctx)
	var slow []int32
	var why error
	s := &splitter{exec: c.exec, locked: func(item int32, err error) {
		if isCanceled(err) {
			slow, why = append(slow, item), err
			return
		}
		o.ledger.log.Debug("a key is held by another transaction: busy", zap.Stringer("key", entries[item].Key))
	}, refused: func(item int32, err error) {
		o.ledger.log.Error("the database refuses an entry", zap.Stringer("key", entries[item].Key), zap.Error(err))
		c.out[item] = ledger.Claim{Err: refusedItem("Entry", err)}
	}}
	rest, wrote, err := c.fresh(ctx, asked)
	if err != nil {
		return nil, err
	}
	s.wrote = wrote
	for _, part := range chunks(rest, c.size) {
		if err := s.run(ctx, part, o.ledger.cfg.LockWait); err != nil {
			return nil, err
		}
	}
	if len(slow) == len(asked) { // nothing was written
		return nil, why
	}
	c.tooSlow(slow, why)
	for i := range c.out {
		if out := &c.out[i]; entries[i].Parked && out.Token > 0 {
			out.Ticket = ledger.ParkedTicket(c.sums[i], out.Token)
		}
	}
	return c.out, nil
}

// tooSlow tells of entries whose claim the database canceled, alone or in all parts that there was time for: they are Busy.
func (c *claimCall) tooSlow(slow []int32, why error) {
	if len(slow) > 0 {
		c.owner.ledger.log.Warn("the database takes too long to claim some messages: busy", zap.Int("messages", len(slow)),
			zap.Stringer("key", c.entries[slow[0]].Key), zap.Error(why))
	}
}
