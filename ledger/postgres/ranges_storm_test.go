package postgres_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// TestOwnersMeetInALog: owners that claim neighbouring batches of one log at once, settle each in two halves or in one InTx,
// and so open, write, join and end ranges beside each other, lose nothing of each other's, and do nothing twice: every offset
// runs once, is counted once, and is finished at the end.
func TestOwnersMeetInALog(t *testing.T) {
	t.Parallel()
	const owners, batches, size = 4, 80, 10
	b := newBench(t, variant{})
	all := records("s", 0, 0, batches*size)
	ran := make([]atomic.Int32, len(all))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range owners {
		o := join(t, b, time.Minute)
		wg.Go(func() {
			for i := next.Add(1) - 1; i < batches; i = next.Add(1) - 1 {
				first := int(i) * size
				if err := claimAndHalve(t, o, all[first:first+size], ran[first:first+size], i%3 > 0); err != nil {
					t.Errorf("batch %d: %v", i, err)
				}
			}
			if err := o.Leave(t.Context()); err != nil { // it closes what InTx has ended
				t.Error(err)
			}
		})
	}
	wg.Wait()
	claimsOf(t, join(t, b, time.Minute), all, ledger.Done)
	for i := range ran {
		if n := ran[i].Load(); n != 1 {
			t.Errorf("offset %d ran %d times", i, n)
		}
	}
	if n := b.number(t, "SELECT coalesce(sum(messages), 0) FROM ackledger.segment WHERE kind = 1"); n != len(all) {
		t.Errorf("%d messages in segments, want %d", n, len(all))
	}
	if n := b.number(t, `SELECT count(*) FROM ackledger.segment a JOIN ackledger.segment b ON a.log = b.log AND a.first < b.first
		AND b.first < a.last`); n != 0 {
		t.Errorf("%d segments meet", n)
	}
}

var errTired = errors.New("still busy after all that time")

// claimAndHalve claims a batch, as often as it takes, and settles every second message of it first, or all of it by
// one InTx.
func claimAndHalve(t *testing.T, o ledger.Owner, batch []ledger.Entry, ran []atomic.Int32, tx bool) error {
	deadline := time.Now().Add(time.Minute)
	mine := make([]ledger.Settlement, 0, len(batch))
	for done := make([]bool, len(batch)); len(mine) < len(batch); {
		claims, err := o.Claim(t.Context(), batch)
		if err != nil {
			return err
		}
		for i, c := range claims {
			if c.Answer == ledger.Run && !done[i] {
				done[i] = true
				ran[i].Add(1)
				mine = append(mine, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed})
			}
		}
		if time.Now().After(deadline) {
			return errTired
		}
	}
	if tx {
		tickets := make([]ledger.Ticket, len(mine))
		for i := range mine {
			tickets[i] = mine[i].Ticket
		}
		return inTx(ledger.WithAttempt(t.Context(), ledger.NewBatchAttempt(o, tickets)), oneEffect)
	}
	for half := range 2 {
		var part []ledger.Settlement
		for i := half; i < len(mine); i += 2 {
			part = append(part, mine[i])
		}
		for len(part) > 0 {
			errs, err := o.Settle(t.Context(), part)
			if err != nil {
				return err
			}
			var left []ledger.Settlement // what another one holds is to be repeated
			for i, err := range errs {
				if ledger.IsLost(err) {
					return err
				} else if err != nil {
					left = append(left, part[i])
				}
			}
			if part = left; time.Now().After(deadline) {
				return errTired
			}
		}
	}
	return nil
}
