package sqs

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/ackledger/ackledger/internal/backoff"
	"github.com/ackledger/ackledger/internal/killpoint"
	"github.com/ackledger/ackledger/internal/visibility"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.uber.org/zap"
)

const (
	deleteCalls  = 4                     // batches of deletes under way at once, at least; else as many as polls
	deleteLinger = 50 * time.Millisecond // for a batch to fill
)

// retries is the backoff of requests that fail: our own, because the SDK's stops helping when everything fails (its
// bucket of retry tokens is empty then).
var retries = backoff.Policy{Base: 200 * time.Millisecond, Max: 10 * time.Second}

// retryDelay is the delay before the n-th retry: at least half of the backoff, so that there is no busy loop.
func retryDelay(n int) time.Duration {
	return retries.Ceiling(n)/2 + retries.Delay(n, rand.Float64())/2
}

// deleteLoop deletes what the ledger is terminal for, in batches, until ctx is done, and waits for its calls. A full batch
// goes at once, a smaller one after deleteLinger.
func (w *Worker) deleteLoop(ctx context.Context) {
	calls := newCallers(max(w.set.MaxPollers, deleteCalls))
	defer calls.end()
	taken := make(chan struct{})
	linger := time.NewTimer(0)
	defer linger.Stop()
	<-linger.C
	for {
		select {
		case <-w.table.toDelete:
		case <-ctx.Done():
			return
		}
		linger.Reset(deleteLinger)
		for lingers := true; lingers && w.table.deletes() < maxBatch; {
			select {
			case <-w.table.toDelete:
			case <-linger.C:
				lingers = false
			case <-ctx.Done():
				return
			}
		}
		calls.do(func() {
			var batch []visibility.Deletion
			w.table.use(func(v *visibility.Table) { batch = v.TakeDeletes() }) // only now: while all callers were busy it has filled
			taken <- struct{}{}
			if len(batch) > 0 {
				w.sendDeletes(batch)
			}
		})
		<-taken
	}
}

// sendDeletes sends one batch. Only entries that failed are sent again.
func (w *Worker) sendDeletes(batch []visibility.Deletion) {
	entries := make([]types.DeleteMessageBatchRequestEntry, len(batch))
	ids := make([]string, len(batch))
	for i := range batch {
		ids[i] = strconv.Itoa(i)
		entries[i] = types.DeleteMessageBatchRequestEntry{Id: &ids[i], ReceiptHandle: &batch[i].Handle}
	}
	ctx, cancel := context.WithTimeout(w.base, callTimeout)
	defer cancel()
	killpoint.At(killpoint.BeforeAck)
	out, err := w.client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &w.url, Entries: entries})
	killpoint.At(killpoint.AfterAck)
	if err != nil {
		w.tel.deleteFailures(len(batch))
		ends := w.trouble(doDelete, err)
		for _, d := range batch {
			if ends {
				w.deleted(d)
			} else {
				w.deleteFailed(d, false)
			}
		}
		return
	}
	w.well(doDelete)
	codes := make([]string, len(batch))
	for i := range codes {
		codes[i] = "not in the answer"
	}
	for _, s := range out.Successful {
		if i, ok := index(s.Id, len(batch)); ok {
			codes[i] = ""
		}
	}
	for _, f := range out.Failed {
		if i, ok := index(f.Id, len(batch)); ok {
			codes[i] = aws.ToString(f.Code)
		}
	}
	for i, d := range batch {
		w.deleteAnswered(d, codes[i])
	}
}

// deleteAnswered deals with one entry's answer; an empty code is success.
func (w *Worker) deleteAnswered(d visibility.Deletion, code string) {
	if code == "" {
		w.deleted(d)
		return
	}
	w.tel.deleteFailures(1)
	if kindOfEntry(code) == kindHandle {
		w.log.Info("receipt handle has expired: the message is deleted when it is delivered again",
			zap.String("message_id", d.Hold.ID), zap.String("code", code))
		w.deleted(d)
		return
	}
	if n, givenUp := w.deleteFailed(d, true); givenUp {
		w.log.Warn("delete is refused for good: the message is deleted when it is delivered again",
			zap.String("message_id", d.Hold.ID), zap.String("code", code), zap.Int("tries", n))
	}
}

func (w *Worker) deleted(d visibility.Deletion) {
	w.table.use(func(v *visibility.Table) { v.Deleted(d) })
}

// deleteFailed sends a delete again after a while, unless it is given up.
func (w *Worker) deleteFailed(d visibility.Deletion, refused bool) (tries int, givenUp bool) {
	w.table.use(func(v *visibility.Table) { tries, givenUp = v.DeleteFailed(d, refused) })
	if !givenUp {
		time.AfterFunc(retryDelay(tries), func() { w.table.use(func(v *visibility.Table) { v.RetryDelete(d.Hold) }) })
	}
	return tries, givenUp
}
