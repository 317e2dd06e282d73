package kafka

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/killpoint"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

// pollMax is how many records one poll takes at most: batches of that size are what the ledger is fastest with, and
// rebalances wait for no more.
const pollMax = 2000

// pollLoop takes records in as long as there is room for them and the ledger answers.
//
// A poll asks for half of the room, since all that it brings may be of one partition, whose first record waits.
//
// Below the high-water mark it polls; at it, while the ledger is out of reach and while the worker is paused it does
// not. Nothing has to be paused at the client for that: membership lives by heartbeats that do not depend on polls
// (KIP-62), and what was fetched stays in the client's bounded buffers, where pausing would throw it away to be fetched
// again.
func (w *Worker) pollLoop(ctx context.Context) {
	var size meanSize
	for w.waitRoom(ctx) {
		records, bytes := w.eng.Room()
		fetches := w.kgo.PollRecords(ctx, size.fit(min((records+1)/2, w.set.Span), bytes/2))
		w.horizon.begin(ctx)
		w.take(fetches, &size)
		w.kgo.AllowRebalance()
		if fetches.IsClientClosed() {
			return
		}
	}
}

// waitRoom waits until a poll makes sense, and returns false when ctx is done.
func (w *Worker) waitRoom(ctx context.Context) bool {
	for ctx.Err() == nil {
		changed := w.eng.Changed()
		stuck, wait := w.table.crowded(time.Now())
		for _, p := range stuck {
			w.applyPause(p)
			w.log.Info("the partition pauses: it waits for a record, and leaves the room to the others",
				zap.String("topic", p.Topic), zap.Int32("partition", p.Partition))
		}
		records, bytes := w.eng.Room()
		if wait == 0 && records > 0 && bytes > 0 && w.eng.Open() {
			return true
		}
		wait = cmp.Or(wait, time.Hour)
		look := time.NewTimer(wait)
		select {
		case <-changed:
		case <-look.C:
		case <-ctx.Done():
		}
		look.Stop()
	}
	return false
}

// firstSize is what a record counts that nobody has seen yet: the brokers' default of max.message.bytes, in two copies.
const firstSize = 2 << 20

// meanSize is the size of the records of late, by which a poll's number of records follows from bytes. It grows at once and
// shrinks slowly: polls that bring too little cost less than one that brings too much.
type meanSize struct{ bytes float64 } // zero: none came yet

func (m *meanSize) fit(records int, bytes int64) int {
	mean := cmp.Or(m.bytes, firstSize)
	return max(min(records, pollMax, int(float64(bytes)/mean)+1), 1)
}

func (m *meanSize) saw(records int, bytes int64) {
	if records == 0 {
		return
	}
	mean := max(float64(bytes)/float64(records), 1)
	m.bytes = max(mean, m.bytes+(mean-m.bytes)/4)
}

// take offers a poll to the engine. Errors come first: one of them may say why the records behind it begin anew.
func (w *Worker) take(fetches kgo.Fetches, size *meanSize) {
	for _, f := range fetches.Errors() {
		w.fetchError(f.Topic, f.Partition, f.Err)
	}
	var items []*engine.Item
	var all []offer
	bytes := int64(0)
	for i := range fetches {
		for j := range fetches[i].Topics {
			t := &fetches[i].Topics[j]
			for k := range t.Partitions {
				p := &t.Partitions[k]
				a := w.takes(t.Topic, t.TopicID, p)
				if a == nil {
					continue
				}
				if st := w.takeStretch(a, p.Records); st != nil {
					all = append(all, offer{items: items}, offer{stretch: st})
					items = nil
					continue
				}
				fresh := w.accept(a, p.Records)
				for _, d := range fresh {
					bytes += d.Size
				}
				items = prepare(&w.set, fresh, nil, items)
			}
		}
	}
	w.offer(append(all, offer{items: items}), bytes, size)
}

// offer is items or a stretch.
type offer struct {
	items   []*engine.Item
	stretch *engine.Stretch
}

// offer gives the engine what a poll came to, in its order; bytes are of the items.
func (w *Worker) offer(all []offer, bytes int64, size *meanSize) {
	n := 0
	for _, o := range all {
		if n += len(o.items); o.stretch != nil {
			n += o.stretch.Records.Len()
			bytes += o.stretch.Records.(*batch).bytes
		}
	}
	size.saw(n, bytes)
	if n > 0 {
		killpoint.At(killpoint.Received)
	}
	for _, o := range all {
		switch {
		case o.stretch != nil:
			w.eng.OfferStretch(o.stretch)
		case len(o.items) > 0:
			w.eng.Offer(o.items)
		}
	}
}

// takes returns the assignment that takes a partition's records in; nil: none does.
func (w *Worker) takes(topic string, id topicID, p *kgo.FetchPartition) *assignment {
	at := place{Topic: topic, Partition: p.Partition}
	if p.Err == nil && p.HighWatermark > 0 {
		w.table.saw(at, p.HighWatermark)
	}
	w.refuseOversize(topic, p)
	if len(p.Records) == 0 {
		return nil
	}
	a := w.table.get(at)
	if a == nil {
		return nil // let go of in this moment: the topic was created anew
	}
	if a.astray || id != (topicID{}) && a.id != (topicID{}) && id != a.id {
		w.readAgain(a) // the client and the broker speak of two topics of this name
		return nil
	}
	a.first = max(p.LogStartOffset, 0)
	if a.read > 0 && a.first > a.read { // with ResetEarliest the client goes on at the log's start, and says nothing
		w.goOn(fmt.Errorf("topic %q partition %d: %w: read up to %d, the log begins at %d", topic, p.Partition, ErrOutOfRange, a.read, a.first))
		a.prev = -1 // what lies between is not finished, it is gone
	}
	a.read = p.Records[len(p.Records)-1].Offset + 1
	return a
}

// refuseOversize ends Run at a record that is larger than the ledger archives, if that is wanted: it is not taken in, nor is what
// is behind it.
func (w *Worker) refuseOversize(topic string, p *kgo.FetchPartition) {
	if w.set.Oversize != OversizeEnd {
		return
	}
	for i, r := range p.Records {
		if n := archivedSize(r); n > w.set.archive {
			w.fail(fmt.Errorf("topic %q partition %d offset %d: %w: it has %d bytes, the ledger archives at most %d (Limits.Archive)",
				topic, p.Partition, r.Offset, ErrOversize, n, w.set.archive))
			p.Records = p.Records[:i]
			return
		}
	}
}

// accept takes a partition's records in, and again what follows the place from which a log was written anew.
func (w *Worker) accept(a *assignment, records []*kgo.Record) []*delivery {
	fresh, full, rewound := w.table.accept(a, records)
	if full {
		w.spanLimit(a)
	}
	if len(rewound) == 0 {
		return fresh
	}
	at := rewound[0]
	record := arriving(at, 0)
	offset, epoch := record.Before()
	now := w.dataLoss(a, offset, epoch, fmt.Errorf("records from offset %d on were written anew (leader epoch %d)", offset, at.LeaderEpoch))
	if now == nil {
		return fresh
	}
	return append(fresh, w.accept(now, rewound)...)
}

// batchOf makes a batch of records that may go through the engine as one: each new, of one leader epoch, known by its place
// alone, and none large; nil: they may not.
func (w *Worker) batchOf(a *assignment, records []*kgo.Record) *batch {
	s := &w.set
	if len(records) == 0 || s.Audit != AuditRanges || s.KeyFunc != nil || s.FingerprintFunc != nil || !w.eng.Stretches(s.Order != OrderNone) {
		return nil
	}
	b := &batch{set: s, of: a, at: a.cursor, records: records, sizes: make([]int64, len(records))}
	for i, r := range records {
		if s.isLarge(r) || r.Attrs.IsControl() || r.LeaderEpoch != records[0].LeaderEpoch || i > 0 && r.Offset <= records[i-1].Offset {
			return nil
		}
		for _, h := range r.Headers {
			if h.Key == consumer.StampName {
				return nil
			}
		}
		b.sizes[i] = heldSize(r)
		b.bytes += b.sizes[i]
	}
	return b
}

// takeStretch takes all of a partition's records in as one; nil: they are to be taken in one by one.
func (w *Worker) takeStretch(a *assignment, records []*kgo.Record) *engine.Stretch {
	b := w.batchOf(a, records)
	if b == nil {
		return nil
	}
	it := b.Items(0, 1)[0]
	if !it.Ranged || it.Skip || it.Invalid != nil {
		return nil
	}
	full, ok := w.table.acceptAll(a, b)
	if !ok {
		return nil
	}
	if full {
		w.spanLimit(a)
	}
	last := records[len(records)-1].Offset
	a.prev = last
	pos := *it.Key.Pos // the item is let go of: it has copies of the record
	key := ledger.Key{Scope: it.Key.Scope, ID: bytes.Clone(it.Key.ID), Pos: &pos}.Known()
	st := &engine.Stretch{Records: b, Ordered: w.set.Order != OrderNone, Lanes: a.lanesOf(&w.set), Claim: ledger.Stretch{Last: last, First: ledger.Entry{
		Key: key, Ranged: true, Late: b, Window: it.Window,
	}}}
	for i := 1; i < len(records); i++ {
		if from, to := records[i-1].Offset+1, records[i].Offset; from < to {
			st.Claim.Gaps = append(st.Claim.Gaps, ledger.Gap{From: from, To: to})
		}
	}
	return st
}

// fetchError deals with what a poll says beside records.
func (w *Worker) fetchError(topic string, partition int32, err error) {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, kgo.ErrClientClosed):
		return
	case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.UnknownTopicOrPartition):
		w.note(withCluster, fmt.Errorf("topic %q partition %d: %w", topic, partition, err))
		w.lookAt(topic)
		return
	case errors.Is(err, kerr.OffsetOutOfRange):
		if a := w.table.get(place{Topic: topic, Partition: partition}); a != nil && !w.isAnother(a) {
			w.fail(fmt.Errorf("topic %q partition %d: %w: %w", topic, partition, ErrOutOfRange, err))
		}
		return
	}
	if _, isSession := errors.AsType[*kgo.ErrGroupSession](err); isSession {
		w.locked(func() { w.joined = false })
		w.report(withGroup, err)
		return
	}
	if large, isLarge := errors.AsType[*kgo.ErrDecompressTooLarge](err); isLarge {
		w.largeBatch(large)
		return
	}
	if loss, isLoss := errors.AsType[*kgo.ErrDataLoss](err); isLoss {
		if a := w.table.get(place{Topic: topic, Partition: partition}); a != nil {
			w.dataLoss(a, loss.ResetTo, loss.ResetToEpoch, loss)
		}
		return
	}
	w.report(withCluster, fmt.Errorf("topic %q partition %d: %w", topic, partition, err))
}

// dataLoss ends Run (nil), or lets a new assignment of the partition begin where the broker's log goes on. If records of
// before are in hand still, the topic is joined afresh instead (nil), from what is committed. epoch is that of what is before the
// offset: it is committed with it, so that a client that begins there learns of the next loss.
func (w *Worker) dataLoss(a *assignment, offset int64, epoch int32, cause error) *assignment {
	if w.isAnother(a) {
		return nil
	}
	err := fmt.Errorf("topic %q partition %d: %w: %w", a.Topic, a.Partition, ErrDataLoss, cause)
	if w.set.Reset == ResetFail {
		w.fail(err)
		return nil
	}
	w.goOn(err)
	if w.table.needs(a, offset) {
		w.readAgain(a)
		return nil
	}
	w.owning.Lock()
	defer w.owning.Unlock()
	now := newAssignment(a.TopicPartition, a.id, a.log)
	now.source, now.horizon, now.Start, now.Epoch = a.source, a.horizon, offset, epoch
	if !w.table.replace(a, now) {
		return nil // it was let go of meanwhile: the topic was created anew
	}
	w.eng.Drop(of(a), w.set.RevokeDrain)
	w.applyPause(a.TopicPartition) // the old one may have paused it
	return now
}
