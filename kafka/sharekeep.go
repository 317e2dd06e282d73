package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/killpoint"
	"github.com/ackledger/ackledger/internal/locks"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

// acknowledged is told of the brokers' answers.
func (w *ShareWorker) acknowledged(_ *kgo.Client, rs kgo.ShareAckResults) {
	killpoint.At(killpoint.AfterAck)
	w.results.mu.Lock()
	defer w.results.mu.Unlock()
	for _, r := range rs {
		name := w.locks.nameOf(place{Topic: r.Topic, Partition: r.Partition})
		if was := w.results.errors[name]; w.results.errors != nil && was == nil {
			w.results.errors[name] = r.Err
		}
		if r.Err != nil && !errors.Is(r.Err, kerr.InvalidRecordState) {
			w.log.Info("an acknowledgement is refused: what it is of comes again, and the ledger knows it",
				zap.String("topic", r.Topic), zap.Int32("partition", r.Partition), zap.Error(r.Err))
		}
	}
}

// keepLoop renews what is in hand, and tells the engine of what has lapsed, until ctx is done. It depends on no poll and not on Run's
// context: it goes on through the drain.
func (w *ShareWorker) keepLoop(ctx context.Context) {
	for {
		tick := time.NewTimer(w.locks.pace())
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return
		}
		batches, drops := w.locks.plan(w.eng.Live())
		w.drop(drops)
		w.renewAll(ctx, batches, nil)
	}
}

// renewBuffered renews what no poll has brought. It is called by poll's goroutine, so that no poll finds what is not hidden.
func (w *ShareWorker) renewBuffered(ctx context.Context) {
	w.renewAll(ctx, w.locks.planBuffered(), hide)
}

// renewAll sends batches one after the other. When one is not answered in time, the others are not sent: each would take as long. after
// is done with each record then; nil: nothing.
func (w *ShareWorker) renewAll(ctx context.Context, batches [][]*locks.Hold, after func(*kgo.Record)) {
	answered := true
	for _, batch := range batches {
		if answered && ctx.Err() == nil {
			answered = w.renew(batch, after)
		} else {
			w.conclude(batch, nil, w.locks.now())
		}
	}
}

// renew sends one batch of renewals, and says whether all were answered. It shares its requests with nothing else: what was sent before is
// answered before, and meanwhile nothing is accepted. Answers are of partitions, and do not say to what they are.
func (w *ShareWorker) renew(batch []*locks.Hold, after func(*kgo.Record)) (answered bool) {
	w.renewing.Lock()
	defer w.renewing.Unlock()
	w.accepts.hold()
	ctx, cancel := context.WithTimeout(context.Background(), w.locks.patience())
	defer cancel()
	_ = w.kgo.FlushAcks(ctx) // after an error no answer counts: ctx is over
	w.results.begin()
	sent := w.locks.now()
	records := w.locks.handles(batch)
	for _, r := range records {
		reveal(r)
	}
	w.kgo.MarkAcks(kgo.AckRenew, records...)
	err := w.kgo.FlushAcks(ctx)
	if after != nil {
		for _, r := range records {
			after(r)
		}
	}
	w.conclude(batch, w.results.outcomes(err == nil), sent)
	w.mark(w.accepts.free())
	return err == nil
}

// conclude tells the table how renewals ended.
func (w *ShareWorker) conclude(batch []*locks.Hold, outcomes map[string]locks.Outcome, sent time.Duration) {
	accepts, drops := w.locks.renewed(batch, outcomes, sent)
	w.accept(accepts)
	w.drop(drops)
}

// accept accepts records that the ledger has decided, now or when the renewals under way have ended.
func (w *ShareWorker) accept(records []*kgo.Record) {
	if len(records) > 0 && !w.accepts.add(records) {
		w.mark(records)
	}
}

// mark lets the client send acceptances with its next request to the partition's broker, or within a second. One that is lost costs a
// delivery.
func (w *ShareWorker) mark(records []*kgo.Record) {
	if len(records) == 0 {
		return
	}
	killpoint.At(killpoint.BeforeAck)
	w.kgo.MarkAcks(kgo.AckAccept, records...)
}

// release gives back what was not handled.
func (w *ShareWorker) release() {
	if records := w.locks.releases(); len(records) > 0 {
		w.kgo.MarkAcks(kgo.AckRelease, records...)
	}
}

// drop tells the engine of records whose locks are over: what has not started is let go of. A handler that runs goes on: its claim
// keeps others away from the record, and a delivery that comes meanwhile waits for it.
func (w *ShareWorker) drop(drops []*locks.Hold) {
	if len(drops) == 0 {
		return
	}
	set := make(map[*locks.Hold]bool, len(drops))
	for _, h := range drops {
		set[h] = true
	}
	w.log.Warn("locks are over: what has not started is let go of", zap.Int("records", len(drops)), zap.String("message_id", drops[0].ID))
	w.eng.Drop(func(it *engine.Item) bool { return set[it.Ref.(*delivery).lock] }, w.set.HandlerTimeout)
}
