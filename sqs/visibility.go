package sqs

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/visibility"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.uber.org/zap"
)

// changeCalls is how many batches of visibility changes are under way at once.
const changeCalls = 8

// keepLoop extends the visibility of what is in hand, hands back what is let go of, and tells the engine of what has lapsed,
// until ctx is done, and waits for its calls. These depend on no poll and not on Run's context: they go on through the drain.
func (w *Worker) keepLoop(ctx context.Context) {
	var calls sync.WaitGroup
	defer calls.Wait()
	slots := make(chan struct{}, changeCalls)
	tick := time.NewTicker(max(w.set.VisibilityTimeout/24, 20*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-w.table.toChange:
		case <-ctx.Done():
			return
		}
		for _, batch := range w.plan(changeCalls - len(slots)) {
			slots <- struct{}{}
			calls.Go(func() {
				w.change(batch)
				<-slots
				poke(w.table.toChange)
			})
		}
	}
}

// plan asks the table for batches of changes, as many as calls are free.
func (w *Worker) plan(free int) (batches [][]visibility.Change) {
	live := w.eng.Live()
	var drops []*visibility.Hold
	w.table.use(func(v *visibility.Table) { batches, drops = v.Plan(w.table.now(), live, free) })
	w.drop(drops)
	return batches
}

// changeTimeout is how long one call may take. An extension is due when a third of the visibility timeout has passed: after
// one that is not answered there is time for another, and for a third.
func changeTimeout(visibility time.Duration) time.Duration {
	return min(max(visibility/6, time.Second), callTimeout)
}

// change sends one batch and tells the table how each entry ended.
func (w *Worker) change(batch []visibility.Change) {
	entries := make([]types.ChangeMessageVisibilityBatchRequestEntry, len(batch))
	for i, c := range batch {
		entries[i] = types.ChangeMessageVisibilityBatchRequestEntry{
			Id: aws.String(strconv.Itoa(i)), ReceiptHandle: aws.String(c.Handle), VisibilityTimeout: c.Seconds,
		}
	}
	ctx, cancel := context.WithTimeout(w.base, changeTimeout(w.set.VisibilityTimeout))
	defer cancel()
	sent := w.table.now()
	out, err := w.client.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &w.url, Entries: entries})
	outcomes := make([]visibility.Outcome, len(batch)) // all are unknown
	if err != nil {
		w.trouble(doChange, err)
		for i := 0; kindOf(err) == kindThrottled && i < len(outcomes); i++ {
			outcomes[i] = visibility.Failed
		}
	} else {
		readChanges(out, outcomes)
		w.well(doChange)
	}
	w.changed(batch, outcomes, sent)
}

// readChanges reads the answer to a batch. Of an entry that it does not name nothing is known.
func readChanges(out *sqs.ChangeMessageVisibilityBatchOutput, outcomes []visibility.Outcome) {
	for _, s := range out.Successful {
		if i, ok := index(s.Id, len(outcomes)); ok {
			outcomes[i] = visibility.Changed
		}
	}
	for _, f := range out.Failed {
		if i, ok := index(f.Id, len(outcomes)); ok {
			outcomes[i] = visibility.Failed
			if kindOfEntry(aws.ToString(f.Code)) == kindHandle {
				outcomes[i] = visibility.Refused
			}
		}
	}
}

// index reads an entry's id, which is its index in the batch.
func index(id *string, n int) (int, bool) {
	i, err := strconv.Atoi(aws.ToString(id))
	return i, err == nil && i >= 0 && i < n
}

func (w *Worker) changed(batch []visibility.Change, outcomes []visibility.Outcome, sent time.Duration) {
	var drops []*visibility.Hold
	w.table.use(func(v *visibility.Table) { drops = v.Changed(batch, outcomes, sent, w.table.now()) })
	var counts [visibility.Refused + 1]int64
	for _, o := range outcomes {
		counts[o]++
	}
	w.tel.visibility(counts)
	w.drop(drops)
}

// alive is asked right before a handler starts.
func (w *Worker) alive(h *hold) bool {
	var ok bool
	var drops []*visibility.Hold
	w.table.use(func(v *visibility.Table) { ok, drops = v.Start(&h.Hold, w.table.now()) })
	w.drop(drops)
	return ok
}

// drop tells the engine of messages whose visibility is over: what has not started is let go of. Of a FIFO group that is
// everything in hand, so that nothing overtakes. A handler that runs goes on: its claim keeps others away from the
// message, and a copy that comes meanwhile waits for it.
func (w *Worker) drop(drops []*visibility.Hold) {
	if len(drops) == 0 {
		return
	}
	set := make(map[*visibility.Hold]bool, len(drops))
	for _, h := range drops {
		set[h] = true
	}
	w.log.Warn("visibility timeout is over: what has not started is let go of", zap.Int("messages", len(drops)),
		zap.String("message_id", drops[0].ID), zap.String("group", drops[0].Group))
	w.eng.Drop(func(it *engine.Item) bool { return set[&it.Ref.(*hold).Hold] }, w.set.HandlerTimeout)
}
