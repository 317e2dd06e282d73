package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/killpoint"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

// ErrDeliveryLimit says that a record has come as often as the broker delivers it, or nearly so (share.delivery.count.limit). Its
// handler does not run any more: the ledger fails it, with its body, and it can be replayed.
var ErrDeliveryLimit = errors.New("the record was delivered as often as the share group may have it")

// pollLoop takes records in as long as there is room for them and the ledger answers.
func (w *ShareWorker) pollLoop(ctx context.Context) {
	for w.waitRoom(ctx) {
		w.seal()
		fetches := w.kgo.PollRecords(ctx, -1)
		w.horizon.begin(ctx)
		w.take(ctx, fetches)
		if fetches.IsClientClosed() {
			return
		}
	}
}

// seal releases what a poll would accept: what the poll before has brought, as far as the client still knows of it. As long as records
// are hidden that is nothing. With a client that finds them all the same, they come again instead of being lost.
func (w *ShareWorker) seal() {
	w.renewing.Lock() // a record that is being renewed would not be released, and would be accepted
	defer w.renewing.Unlock()
	w.kgo.MarkAcks(kgo.AckRelease)
}

// fullPace is the time between two looks at whether fewer records are in hand.
const fullPace = 10 * time.Millisecond

// waitRoom waits until a poll makes sense, and returns false when ctx is done. Meanwhile it renews what the client has fetched.
//
// While so much is in hand that a fetch may find all partitions locked, it waits as long as that fetch would: what is acknowledged
// beside a fetch waits for its answer, and until then the broker frees no lock.
func (w *ShareWorker) waitRoom(ctx context.Context) bool {
	soon := time.Now().Add(shareFetchWait)
	for ctx.Err() == nil {
		changed, pace := w.eng.Changed(), w.locks.pace()
		if records, bytes := w.eng.Room(); records > 0 && bytes > 0 && w.eng.Open() {
			if !w.locks.full() || time.Now().After(soon) {
				return true
			}
			pace = fullPace
		}
		look := time.NewTimer(pace)
		select {
		case <-changed:
		case <-look.C:
			w.renewBuffered(ctx)
		case <-ctx.Done():
		}
		look.Stop()
	}
	return false
}

// take offers a poll to the engine.
func (w *ShareWorker) take(ctx context.Context, fetches kgo.Fetches) {
	healthy := true
	for _, f := range fetches.Errors() {
		healthy = false
		w.fetchError(f.Topic, f.Partition, f.Err)
	}
	if healthy {
		w.note(withCluster, nil)
		w.note(withGroup, nil)
	}
	var items []*engine.Item
	for i := range fetches {
		for j := range fetches[i].Topics {
			t := &fetches[i].Topics[j]
			for k := range t.Partitions {
				p := &t.Partitions[k]
				if len(p.Records) > 0 && w.isSure(ctx, t.Topic) {
					items = w.prepare(w.logOf(place{Topic: t.Topic, Partition: p.Partition}), p.Records, items)
				}
			}
		}
	}
	if len(items) == 0 {
		return
	}
	killpoint.At(killpoint.Received)
	w.eng.Offer(items)
	w.drop(w.locks.late(items)) // the engine was told to let go of them before it had them
}

// prepare makes items of what is new of a partition's records.
func (w *ShareWorker) prepare(a *assignment, records []*kgo.Record, items []*engine.Item) []*engine.Item {
	fresh, late := w.locks.receive(records)
	if late > 0 {
		w.log.Warn("records arrived after their locks were over: they are left to come again",
			zap.String("topic", a.Topic), zap.Int32("partition", a.Partition), zap.Int("records", late))
	}
	for _, d := range fresh {
		d.of, d.Size = a, heldSize(d.record)
	}
	from := len(items)
	items = prepare(&w.set, fresh, nil, items)
	for _, it := range items[from:] {
		d := it.Ref.(*delivery)
		d.msg.Received, it.Alive = int(d.lock.Count), w.alive
		if it.Invalid == nil && w.locks.reserved(d.lock) {
			it.Invalid = fmt.Errorf("kafka: %w: delivery %d of at most %d (%s)", ErrDeliveryLimit, d.lock.Count, w.locks.limit(), termLimit)
		}
		r := d.lock.Handle.(*kgo.Record) // it stays as what is acknowledged: it must not keep its batch in memory
		r.Key, r.Value, r.Headers = nil, nil, nil
	}
	return items
}

// logOf is what the records of a partition have in common.
func (w *ShareWorker) logOf(p place) *assignment {
	a := w.logs[p]
	if a == nil {
		a = newAssignment(p, w.ids[p.Topic], LogName(w.cluster, p.Topic, w.ids[p.Topic], p.Partition))
		a.source, a.horizon = w.sources[p.Topic], w.horizon
		a.begin()
		w.logs[p] = a
	}
	return a
}

// isSure says whether the client reads the topic that Run began with: between its question and the client's, the topic may have been
// created anew, and its records would have the keys of the old one's. A client that reads a topic goes on with its id.
func (w *ShareWorker) isSure(ctx context.Context, topic string) bool {
	for n := 1; !w.sure[topic]; n++ {
		_, metas, err := w.metadata(ctx, w.kgo, []string{topic})
		if m := metas[topic]; err == nil && m.err == nil {
			if m.id != w.ids[topic] {
				w.fail(fmt.Errorf("topic %q was created anew as the worker began: start it again", topic))
				return false
			}
			w.sure[topic] = true
		} else if !engine.Sleep(ctx, retryDelay(n)) {
			return false
		}
	}
	return true
}

// fetchError deals with what a poll says beside records.
func (w *ShareWorker) fetchError(topic string, partition int32, err error) {
	err = fmt.Errorf("topic %q partition %d: %w", topic, partition, err)
	large, isLarge := errors.AsType[*kgo.ErrDecompressTooLarge](err)
	session, isSession := errors.AsType[*kgo.ErrGroupSession](err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, kgo.ErrClientClosed):
	case isSession && errors.Is(session.Err, kerr.UnsupportedVersion): // a broker that begins does not know yet that it has share groups
		w.note(withGroup, session)
	case isSession:
		w.report(withGroup, session)
	case isLarge:
		limit, _ := w.kgo.OptValue(kgo.MaxDecompressBatchBytes).(int)
		w.fail(fmt.Errorf("topic %q partition %d offsets %d to %d: %w: it unpacks to more than %d bytes (kgo.MaxDecompressBatchBytes)",
			topic, partition, large.Offset, large.NextOffset-1, ErrLargeBatch, limit))
	case errors.Is(err, kerr.UnknownTopicID): // the client waits for a while before it says so
		w.fail(fmt.Errorf("%w: the topic was deleted or created anew: start the worker again", err))
	default:
		w.report(withCluster, err)
	}
}

// alive is asked right before a handler starts.
func (w *ShareWorker) alive(it *engine.Item) bool { return w.locks.start(it.Ref.(*delivery).lock) }
