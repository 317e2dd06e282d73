package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/ackledger/ackledger/ledger"
)

// A storm of members that claim the records of some logs as one, each batch after batch.
const (
	stormMembers = 4
	stormLogs    = 4
	stormBatches = 10
	stormBatch   = 10
	stormDeaths  = ledger.CrashLimit - 1 // so that no message is given up
)

// storm is what its members share.
type storm struct {
	*env
	ended  [stormLogs][stormBatches * stormBatch]atomic.Int32
	deaths atomic.Int32
}

// rangeStretchesStorm: members meet in the same logs, claim as one or one by one, settle, commit, give back, leave and die: each record
// succeeds once, and all do.
func rangeStretchesStorm(e *env) {
	st := &storm{env: e}
	var all sync.WaitGroup
	for range stormMembers {
		all.Go(func() {
			if err := st.member(); err != nil {
				e.Error(err)
			}
		})
	}
	all.Wait()
	last := e.owner()
	for log := range st.ended {
		for i := range st.ended[log] {
			if n := st.ended[log][i].Load(); n != 1 {
				e.Errorf("log %d: record %d has succeeded %d times", log, i, n)
			}
		}
		_, entries := e.inLog(int32(log), 0, stormBatches*stormBatch)
		e.answers(last, entries, answered(ledger.Done))
	}
}

// next is a batch that is not over: the first of its log, or one behind it, as after a rebalance or two.
func (st *storm) next() (log int32, from int64, ok bool) {
	for _, at := range rand.Perm(stormLogs) {
		for i := range st.ended[at] {
			if st.ended[at][i].Load() == 0 {
				batch := min(i/stormBatch+rand.IntN(3), stormBatches-1)
				return int32(at), int64(batch * stormBatch), true
			}
		}
	}
	return 0, 0, false
}

// member works until all is over. It is another owner after each that left or died.
func (st *storm) member() error {
	for {
		joined, err := st.Ledger.Join(st.ctx, longLease)
		if err != nil {
			return err
		}
		over, err := st.life(joined)
		if left := joined.Leave(st.ctx); over || err != nil || left != nil {
			return errors.Join(err, left)
		}
	}
}

// life is one owner's, until it leaves or dies, or all is over.
func (st *storm) life(joined ledger.Owner) (over bool, err error) {
	o := ledger.Ungroup(joined).(ledger.StretchOwner)
	for range 10 {
		log, from, ok := st.next()
		if !ok {
			return true, nil
		}
		s, entries := st.inLog(log, from, from+stormBatch)
		tickets, whole, err := st.claim(o, s, entries)
		if err != nil {
			return false, err
		}
		ours := make([]*atomic.Int32, len(tickets))
		for i, t := range tickets {
			sum := t.Sum()
			ours[i] = &st.ended[log][int(sum[14])<<8|int(sum[15])]
		}
		switch rand.IntN(7) {
		case 0:
			err = st.settle(o, tickets, ours, ledger.Release)
		case 1:
			half := len(tickets) / 2
			err = errors.Join(st.settle(o, tickets[half:], ours[half:], ledger.Release), st.settle(o, tickets[:half], ours[:half], ledger.Succeed))
		case 2:
			if st.InTx != nil && len(tickets) > 0 {
				err = st.commit(joined, tickets, ours)
				break
			}
			err = st.settle(o, tickets, ours, ledger.Succeed)
		case 3:
			if st.deaths.Add(1) <= stormDeaths {
				return false, st.Declare(st.ctx, joined.ID())
			}
			return false, nil
		default:
			if whole == 0 {
				err = st.settle(o, tickets, ours, ledger.Succeed)
			} else {
				err = st.settleWhole(o, st.done(s, whole), tickets, ours)
			}
		}
		if err != nil {
			return false, fmt.Errorf("log %d from %d: %w", log, from, err)
		}
	}
	return false, nil
}

// claim asks for a batch as one, and one by one where that is not to be had. It returns what is ours, and the token of a whole batch.
func (st *storm) claim(o ledger.StretchOwner, s ledger.Stretch, entries []ledger.Entry) (tickets []ledger.Ticket, whole uint64, err error) {
	tokens, err := o.ClaimStretches(st.ctx, []ledger.Stretch{s})
	if err != nil {
		return nil, 0, err
	}
	if tokens[0] != 0 {
		for _, m := range entries {
			tickets = append(tickets, ledger.NewTicket(m.Key.Sum(), tokens[0]))
		}
		return tickets, tokens[0], nil
	}
	claims, err := o.Claim(st.ctx, entries)
	if err != nil {
		return nil, 0, err
	}
	for i, c := range claims {
		if c.Suspect {
			entries[i].Solo = true
			alone, err := o.Claim(st.ctx, entries[i:i+1])
			if err != nil {
				return nil, 0, err
			}
			c = alone[0]
		}
		if c.Answer == ledger.Run {
			tickets = append(tickets, c.Ticket)
		}
	}
	return tickets, 0, nil
}

// settle settles each, as often as it takes. Who is live loses nothing.
func (st *storm) settle(o ledger.Owner, tickets []ledger.Ticket, ours []*atomic.Int32, kind ledger.SettleKind) error {
	for tries := 0; len(tickets) > 0; tries++ {
		settlements := make([]ledger.Settlement, len(tickets))
		for i, t := range tickets {
			settlements[i] = ledger.Settlement{Ticket: t, Kind: kind}
		}
		errs, err := o.Settle(st.ctx, settlements)
		if err != nil {
			return err
		}
		var left []ledger.Ticket
		var leftOurs []*atomic.Int32
		for i, err := range errs {
			switch {
			case err == nil && kind == ledger.Succeed:
				ours[i].Add(1)
			case err != nil && (ledger.IsLost(err) || tries == 100):
				return err
			case err != nil: // another has it locked
				left, leftOurs = append(left, tickets[i]), append(leftOurs, ours[i])
			}
		}
		tickets, ours = left, leftOurs
	}
	return nil
}

func (st *storm) settleWhole(o ledger.StretchOwner, d ledger.StretchDone, tickets []ledger.Ticket, ours []*atomic.Int32) error {
	errs, err := o.SettleStretches(st.ctx, []ledger.StretchDone{d})
	switch {
	case err != nil:
		return err
	case errs[0] != nil && ledger.IsLost(errs[0]):
		return errs[0]
	case errs[0] != nil:
		return st.settle(o, tickets, ours, ledger.Succeed)
	}
	for _, n := range ours {
		n.Add(1)
	}
	return nil
}

// commit settles all by one transaction.
func (st *storm) commit(joined ledger.Owner, tickets []ledger.Ticket, ours []*atomic.Int32) error {
	ctx := ledger.WithAttempt(st.ctx, ledger.NewBatchAttempt(joined, tickets))
	if err := st.InTx(ctx, func(context.Context) error { return nil }); err != nil {
		return fmt.Errorf("InTx: %w", err)
	}
	for _, n := range ours {
		n.Add(1)
	}
	return nil
}
