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
	for s.next(&batch) {
		if len(batch.Ranges) > 0 {
			s.settleRanges(&batch)
		} else {
			sets = s.settleItems(&batch, sets[:0])
			clear(sets)
		}
		s.mu.Lock()
		s.flow.SettleOver(&batch)
		s.unlock()
		clear(batch.Items)
		clear(batch.Ranges)
	}
}

// next waits for something to settle; false: the engine closes.
func (s *settler) next(batch *flow.Batch) bool {
	s.mu.Lock()
	for !s.flow.NextSettle(batch) {
		if s.flow.Closed() {
			s.unlock()
			return false
		}
		s.wait.settle.Wait()
	}
	s.unlock()
	return true
}

// settleItems settles a batch until the ledger has answered for it; settlements may be repeated. It gives up only when the
// engine closes.
func (s *settler) settleItems(batch *flow.Batch, sets []ledger.Settlement) []ledger.Settlement {
	for i := range batch.Items {
		s.archives.fit(&batch.Items[i])
		sets = append(sets, batch.Items[i].Full())
	}
	sess := sessionOf(batch.Session())
	var errs []error
	err, answered := s.untilAnswered(sess, batch.Messages(), func(ctx context.Context) (err error) {
		if errs, err = sess.owner.Settle(ctx, sets); ledger.Unknown(err) {
			s.do(func(f *flow.Flow, _ time.Duration) { f.MaybeSettled(batch) })
		}
		return err
	})
	if answered {
		s.do(func(f *flow.Flow, now time.Duration) { f.Settled(now, batch, errs, err) })
	}
	return sets
}

// settleRanges settles ranges until the ledger has answered.
func (s *settler) settleRanges(batch *flow.Batch) {
	done := make([]ledger.StretchDone, len(batch.Ranges))
	for i, r := range batch.Ranges {
		done[i] = r.Finished()
	}
	sess := sessionOf(batch.Session())
	var errs []error
	err, answered := s.untilAnswered(sess, batch.Messages(), func(ctx context.Context) (err error) {
		errs, err = sess.ranges.SettleStretches(ctx, done)
		return err
	})
	if answered {
		s.do(func(f *flow.Flow, now time.Duration) { f.Settled(now, batch, errs, err) })
	}
}

// untilAnswered repeats a call that settles n messages until the ledger has answered it: nil or ErrLost, which is also the
// answer of a session that is lost: no answer for that need ever come, since nothing tells it the database's clock any more, so
// its statements may all be late. It is false if the engine closes.
func (s *settler) untilAnswered(sess *session, n int, call func(context.Context) error) (error, bool) {
	for try := 1; ; try++ {
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout(s.lease.opt))
		killpoint.At(killpoint.BeforeSettle)
		err := call(ctx)
		killpoint.At(killpoint.AfterSettle)
		cancel()
		s.tel.settleTook(time.Since(began))
		if err == nil {
			s.lease.note(nil)
			return nil, true
		}
		if ledger.IsLost(err) {
			s.lease.lose(sess)
			return err, true
		}
		if ledger.Unknown(err) {
			s.tel.unknown(n)
		}
		s.lease.note(err)
		s.lease.nap(outage(try))
		if s.lease.gone.Err() != nil {
			return nil, false
		}
		if s.lease.lost(sess) {
			return ledger.ErrLost, true
		}
	}
}
