package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// settlePatience is how many times longer than a batch waits for a lock a settlement is repeated whose row is held: it is
// worth waiting for, since nobody else will make it.
const settlePatience = 10

// heldPause is the pause before each time, where that time is long: else it is a fortieth.
const heldPause = 50 * time.Millisecond

// patience asks again for settlements whose rows another transaction holds. They go in batches of their own, one at a time,
// that wait for no lock: so they hold up no other settlement, and take no more than one connection, for a moment.
type patience struct {
	again ledger.Owner
	limit time.Duration
}

func newPatience(o *owner) *patience {
	return &patience{
		again: ledger.Group(heldOwner{o}, ledger.GroupConfig{Flushes: 1, Timeout: ledger.CallTimeout}),
		limit: settlePatience * o.ledger.cfg.LockWait,
	}
}

// settled answers anew what is held ([ledger.GroupConfig], Settled).
func (p *patience) settled(ctx context.Context, settlements []ledger.Settlement, answers []error) {
	began := time.Now()
	for {
		var held []int
		var again []ledger.Settlement
		for i, err := range answers {
			if errors.Is(err, errHeld) {
				held, again = append(held, i), append(again, settlements[i])
			}
		}
		if len(held) == 0 || time.Since(began) > p.limit {
			return
		}
		select {
		case <-time.After(min(p.limit/40, heldPause)):
		case <-ctx.Done():
			return
		}
		errs, err := p.again.Settle(ctx, again)
		switch {
		case err == nil:
		case ledger.Unknown(err), ledger.IsLost(err): // with Unknown it may be written: the caller repeats it
			errs = slices.Repeat([]error{err}, len(held))
		default: // it was not: still held, as far as is known
			continue
		}
		for at, i := range held {
			answers[i] = errs[at]
		}
	}
}

// heldOwner settles what was held when it was last asked: nothing goes ahead, and nothing is waited for.
type heldOwner struct{ *owner }

// Settle implements [ledger.Owner].
func (o heldOwner) Settle(ctx context.Context, settlements []ledger.Settlement) ([]error, error) {
	return o.settle(ctx, settlements, true)
}
