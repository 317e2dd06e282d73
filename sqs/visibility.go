package sqs

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.uber.org/zap"
)

// changeCalls is how many batches of visibility changes are under way at once.
const changeCalls = 8

// keeper extends the visibility of what is in hand, hands back what is let go of, and tells the engine of what has
// lapsed. Its calls depend on no poll and not on Run's context: they go on through the drain.
type keeper struct {
	w     *Worker
	calls sync.WaitGroup
	slots chan struct{}
}

// keepLoop runs until ctx is done, and waits for its calls.
func (w *Worker) keepLoop(ctx context.Context) {
	k := &keeper{w: w, slots: make(chan struct{}, changeCalls)}
	defer k.calls.Wait()
	tick := time.NewTicker(max(w.set.VisibilityTimeout/24, 20*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-w.table.toChange:
		case <-ctx.Done():
			return
		}
		k.round()
	}
}

// round does what the table plans, as far as calls are free.
func (k *keeper) round() {
	free := changeCalls - len(k.slots)
	changes, drops := k.w.table.plan(time.Now(), k.w.eng.Live(), free*maxBatch)
	k.w.drop(drops)
	finals := 0
	for finals < len(changes) && changes[finals].final {
		finals++
	}
	// At most one more batch than slots: the last one waits here.
	for _, part := range [][]change{changes[:finals], changes[finals:]} {
		for batch := range slices.Chunk(part, maxBatch) {
			k.slots <- struct{}{}
			k.calls.Go(func() {
				k.send(batch)
				<-k.slots
				poke(k.w.table.toChange)
			})
		}
	}
}

// changeTimeout is how long one call may take. An extension is due when a third of the visibility timeout has passed: after
// one that is not answered there is time for another, and for a third.
func changeTimeout(visibility time.Duration) time.Duration {
	return min(max(visibility/6, time.Second), callTimeout)
}

// send sends one batch and tells the table how each entry ended.
func (k *keeper) send(batch []change) {
	w := k.w
	entries := make([]types.ChangeMessageVisibilityBatchRequestEntry, len(batch))
	for i, c := range batch {
		entries[i] = types.ChangeMessageVisibilityBatchRequestEntry{
			Id: aws.String(strconv.Itoa(i)), ReceiptHandle: aws.String(c.handle), VisibilityTimeout: c.seconds,
		}
	}
	ctx, cancel := context.WithTimeout(w.base, changeTimeout(w.set.VisibilityTimeout))
	defer cancel()
	sent := time.Now()
	out, err := w.client.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &w.url, Entries: entries})
	outcomes := make([]outcome, len(batch))
	if err != nil {
		w.trouble(doChange, err)
		for i := range outcomes {
			outcomes[i] = failed
		}
	} else {
		readChanges(out, outcomes)
		w.well(doChange)
	}
	k.settle(batch, outcomes, sent)
}

// readChanges reads the answer to a batch. An entry that it does not name is to be sent again.
func readChanges(out *sqs.ChangeMessageVisibilityBatchOutput, outcomes []outcome) {
	for i := range outcomes {
		outcomes[i] = failed
	}
	for _, s := range out.Successful {
		if i, ok := index(s.Id, len(outcomes)); ok {
			outcomes[i] = changed
		}
	}
	for _, f := range out.Failed {
		if i, ok := index(f.Id, len(outcomes)); ok && kindOfEntry(aws.ToString(f.Code)) == kindHandle {
			outcomes[i] = refused
		}
	}
}

// index reads an entry's id, which is its index in the batch.
func index(id *string, n int) (int, bool) {
	i, err := strconv.Atoi(aws.ToString(id))
	return i, err == nil && i >= 0 && i < n
}

func (k *keeper) settle(batch []change, outcomes []outcome, sent time.Time) {
	w, now := k.w, time.Now()
	var drops []*hold
	var counts [refused + 1]int64
	for i, c := range batch {
		counts[outcomes[i]]++
		drops = append(drops, w.table.changed(c, outcomes[i], sent, now)...)
	}
	if w.table.fifo && batch[0].final {
		w.table.returned()
	}
	w.tel.visibility(counts)
	w.drop(drops)
}

// alive is asked right before a handler starts.
func (w *Worker) alive(h *hold) bool {
	ok, drops := w.table.start(h, time.Now())
	w.drop(drops)
	return ok
}

// drop tells the engine of messages whose visibility is over: what has not started is let go of. Of a FIFO group that is
// everything in hand, so that nothing overtakes. A handler that runs goes on: its claim keeps others away from the
// message, and a copy that comes meanwhile waits for it.
func (w *Worker) drop(drops []*hold) {
	if len(drops) == 0 {
		return
	}
	set := make(map[*hold]bool, len(drops))
	for _, h := range drops {
		set[h] = true
	}
	w.log.Warn("visibility timeout is over: what has not started is let go of", zap.Int("messages", len(drops)),
		zap.String("message_id", drops[0].id), zap.String("group", drops[0].group))
	w.eng.Drop(func(it *engine.Item) bool { return set[it.Ref.(*hold)] }, w.set.HandlerTimeout)
}
