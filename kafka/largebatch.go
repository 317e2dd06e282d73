package kafka

import (
	"fmt"
	"math"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/marks"
	"github.com/ackledger/ackledger/internal/offsets"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

// minUnpacked is what a batch may unpack to at least, however little the ledger archives: producers' batches of 1 MiB often
// unpack to several.
const minUnpacked = 16 << 20

// unpackLimit is the default of kgo.MaxDecompressBatchBytes, in bytes. It leaves room for a message that is larger than the
// ledger archives, which is handled all the same (see Oversize).
func unpackLimit(archive int) int {
	return min(max(2*archive, minUnpacked), math.MaxInt32)
}

// Bounds of what a broker's answer has at most, as it is packed. The larger is the client's default.
const minFetched, maxFetched = 1 << 20, 50 << 20

// fetchLimit is the default of kgo.FetchMaxBytes: what the client has fetched is in memory beside what is held.
func fetchLimit(held int64) int32 {
	return int32(min(max(held/4, minFetched), maxFetched))
}

// largeBatch ends Run, or passes the batch. It is called between a poll and AllowRebalance, so the partition stays ours.
func (w *Worker) largeBatch(b *kgo.ErrDecompressTooLarge) {
	at := place{Topic: b.Topic, Partition: b.Partition}
	limit, _ := w.kgo.OptValue(kgo.MaxDecompressBatchBytes).(int)
	err := fmt.Errorf("topic %q partition %d offsets %d to %d: %w: it unpacks to more than %d bytes (kgo.MaxDecompressBatchBytes)",
		b.Topic, b.Partition, b.Offset, b.NextOffset-1, ErrLargeBatch, limit)
	if w.set.LargeBatch != LargeBatchPass {
		w.fail(err)
		return
	}
	a := w.table.get(at)
	if a == nil || a.astray {
		return // it is let go of, and its next assignment meets the batch again
	}
	if _, known := w.kgo.CommittedOffsets()[b.Topic][b.Partition]; !known {
		// The client was told to begin at the log's start, and sets no offset before it has one (kgo 1.22.2). The position
		// there is committed already, so after a rejoin it has.
		w.readAgain(a)
		return
	}
	item := w.table.acceptBatch(a, b, err)
	if item == nil {
		w.readAgain(a)
		return
	}
	if w.set.Order == OrderPartition {
		item.OrderingKey = a.name
	}
	w.kgo.SetOffsets(map[string]map[int32]kgo.EpochOffset{b.Topic: {b.Partition: {Epoch: b.Epoch, Offset: b.NextOffset}}})
	a.read, a.prev = b.NextOffset, b.NextOffset-1
	w.log.Error("a batch of records is passed and archived by its place alone", zap.Error(err))
	w.locked(func() { w.batches, w.batch = w.batches+1, err })
	w.eng.Offer([]*engine.Item{item})
}

// acceptBatch takes a batch in as one item at its last offset, so that the committed offset stays before it until the ledger
// has archived it, and is behind it then. Nil: the assignment takes it in no more.
//
// The item has an identity of its own, no record's: the ledger is to know nothing of records that nobody has seen. So it is no
// part of a range either, and covers no gap.
func (t *table) acceptBatch(a *assignment, b *kgo.ErrDecompressTooLarge, why error) *engine.Item {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := b.NextOffset - 1
	seq, is := t.core.Take(time.Now(), &a.Assignment, offsets.Record{Offset: last, Epoch: b.Epoch})
	if is != offsets.Taken {
		return nil
	}
	d := &delivery{of: a, seq: seq, headers: []ledger.Header{marks.LeftOutBatch(b.Offset, last)}}
	id := fmt.Sprintf("%s-%d..%d", a.name, b.Offset, last)
	d.msg = consumer.Message{ID: id, Source: a.source.name, Headers: d.headers, Topic: a.Topic, Partition: a.Partition, Offset: last}
	d.Msg, d.Log, d.Original, d.Ref = &d.msg, a.log, original, d
	d.Delivery = fmt.Appendf(nil, "%s/%d/%d..%d", a.log, b.Epoch, b.Offset, last)
	d.Identity = engine.Identity{
		Key:         ledger.Key{Scope: a.source.scope, ID: fmt.Appendf(nil, "%s@%s/%d", id, a.id, b.Epoch)},
		Fingerprint: ledger.BodyFingerprint(nil), Invalid: why,
	}
	d.Window = a.source.window
	return &d.Item
}
