package engine

import (
	"context"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/internal/killpoint"
	"github.com/ackledger/ackledger/ledger"
)

// settler settles in the ledger what the flow wants settled.
type settler struct {
	*kernel
	lease    *lease
	archives *archives
}

// loop settles in batches: whatever comes while a call is under way goes with the next one.
func (s *settler) loop() {
	var batch flow.Batch
	var sets []ledger.Settlement
	next := func() bool { return s.flow.NextSettle(s.now(), &batch) }
	for s.await(s.wait.settle, next) {
		if len(batch.Ranges) > 0 {
			s.settleRanges(&batch)
		} else {
			sets = s.settleItems(&batch, sets[:0])
			clear(sets)
		}
		s.mu.Lock()
		s.flow.SettleOver(s.now(), &batch)
		s.unlock()
		clear(batch.Items)
		clear(batch.Ranges)
	}
}

// settleItems settles a batch; settlements may be repeated.
func (s *settler) settleItems(batch *flow.Batch, sets []ledger.Settlement) []ledger.Settlement {
	for i := range batch.Items {
		s.archives.fit(&batch.Items[i])
		sets = append(sets, batch.Items[i].Full())
	}
	s.settle(batch, func(ctx context.Context, sess *session) (errs []error, err error) {
		if errs, err = sess.owner.Settle(ctx, sets); ledger.Unknown(err) {
			s.do(func(f *flow.Flow, _ time.Duration) { f.MaybeSettled(batch) })
		}
		return errs, err
	})
	return sets
}

// settleRanges settles ranges.
func (s *settler) settleRanges(batch *flow.Batch) {
	done := make([]ledger.StretchDone, len(batch.Ranges))
	for i, r := range batch.Ranges {
		done[i] = r.Finished()
	}
	s.settle(batch, func(ctx context.Context, sess *session) ([]error, error) {
		return sess.ranges.SettleStretches(ctx, done)
	})
}

// settle repeats a call that settles a batch until the ledger has answered it, and hands the answer to the flow. ErrLost is also
// the answer of a session that is lost: no answer for that need ever come, since nothing tells it the database's clock any more,
// so its statements may all be late. It gives up only when the engine closes.
func (s *settler) settle(batch *flow.Batch, call func(context.Context, *session) ([]error, error)) {
	sess := sessionOf(batch.Session())
	for try := 1; ; try++ {
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout(s.lease.opt))
		killpoint.At(killpoint.BeforeSettle)
		errs, err := call(ctx, sess)
		killpoint.At(killpoint.AfterSettle)
		cancel()
		s.tel.settle.Record(context.Background(), time.Since(began).Seconds(), s.tel.attrs)
		switch {
		case err == nil:
			s.lease.note(nil)
		case ledger.IsLost(err):
			s.lease.lose(sess)
		default:
			if ledger.Unknown(err) {
				s.tel.unknown(batch.Messages())
			}
			s.lease.note(err)
			s.lease.nap(outage(try))
			if s.lease.gone.Err() != nil {
				return
			}
			if !s.lease.lost(sess) {
				continue
			}
			err = ledger.ErrLost
		}
		s.do(func(f *flow.Flow, now time.Duration) { f.Settled(now, batch, errs, err) })
		return
	}
}
