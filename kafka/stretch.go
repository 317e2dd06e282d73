package kafka

import (
	"slices"
	"strings"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kgo"
)

// cursor is what the items of a log's records are made with, one after the other.
type cursor struct {
	keys  ledger.LogKeys
	prev  int64 // ledger.Position.Prev of the next record
	first int64 // where the log begins; 0: not known
}

// batch is records of one poll and partition that go through the engine as one. The client's records are kept as long as it
// is in hand: what is made of them has bytes of its own.
type batch struct {
	set     *settings
	of      *assignment
	at      cursor // of the first record
	records []*kgo.Record
	bytes   int64  // of memory, see heldSize
	seq     uint64 // of the first record in the tracker, the others follow
}

var _ engine.Records = (*batch)(nil)

// Len implements engine.Records.
func (b *batch) Len() int { return len(b.records) }

// Offset implements engine.Records.
func (b *batch) Offset(i int) int64 { return b.records[i].Offset }

// Size implements engine.Records.
func (b *batch) Size(i int) int64 { return heldSize(b.records[i]) }

// SentAt implements engine.Records.
func (b *batch) SentAt(i int) time.Time { return b.records[i].Timestamp }

// Items implements engine.Records.
func (b *batch) Items(from, to int, reuse []*engine.Item) []*engine.Item {
	at := b.at
	if from > 0 {
		at.prev = b.records[from-1].Offset
	}
	items := slices.Grow(reuse[:0], to-from)
	for i := from; i < to; i++ {
		var d *delivery
		if at := i - from; at < len(reuse) {
			d = reuse[at].Ref.(*delivery)
			*d = delivery{}
		} else {
			d = new(delivery)
		}
		d.of, d.seq, d.record, d.Ref, d.Size = b.of, b.seq+uint64(i), b.records[i], d, b.Size(i)
		items = append(items, &d.Item)
	}
	lend(b.set, items, &at)
	return items
}

// Keep implements engine.Records.
func (b *batch) Keep(it *engine.Item) {
	d := it.Ref.(*delivery)
	r := d.lent.Load()
	if r == nil {
		return
	}
	copies := make(arena, 0, originalSize(r))
	d.keep(&copies)
	var names strings.Builder
	names.Grow(d.laneSize(b.set.Order, d.key))
	it.Lane = d.lane(b.set.Order, &names)
}

// stretchable says whether records may go through the engine as one: each new, of one leader epoch, known by its place
// alone, and none large.
func (w *Worker) stretchable(records []*kgo.Record) bool {
	s := &w.set
	if len(records) == 0 || s.Audit != AuditRanges || s.KeyFunc != nil || s.FingerprintFunc != nil || !w.eng.Stretches(s.Order != OrderNone) {
		return false
	}
	for i, r := range records {
		if s.isLarge(r) || r.Attrs.IsControl() || r.LeaderEpoch != records[0].LeaderEpoch || i > 0 && r.Offset <= records[i-1].Offset {
			return false
		}
		for _, h := range r.Headers {
			if h.Key == consumer.StampName {
				return false
			}
		}
	}
	return true
}

// takeStretch takes all of a partition's records in as one; nil: they are to be taken in one by one.
func (w *Worker) takeStretch(a *assignment, records []*kgo.Record) *engine.Stretch {
	if !w.stretchable(records) {
		return nil
	}
	b := &batch{set: &w.set, of: a, at: a.cursor, records: records}
	it := b.Items(0, 1, nil)[0]
	if !it.Ranged || it.Skip || it.Invalid != nil {
		return nil
	}
	for i := range records {
		b.bytes += b.Size(i)
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
	st := &engine.Stretch{Records: b, Ordered: w.set.Order != OrderNone, Claim: ledger.Stretch{Last: last, First: ledger.Entry{
		Key: it.Key, Ranged: true, Late: it.Late, Window: it.Window,
	}}}
	for i := 1; i < len(records); i++ {
		if from, to := records[i-1].Offset+1, records[i].Offset; from < to {
			st.Claim.Gaps = append(st.Claim.Gaps, ledger.Gap{From: from, To: to})
		}
	}
	return st
}

// acceptAll is accept for records of a batch, all of them or none: false if one is not new.
func (t *table) acceptAll(a *assignment, b *batch) (full, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, _ := a.tracker.Last(); a.closing || b.records[0].Offset <= last {
		return false, false
	}
	for i, r := range b.records {
		seq, _ := a.tracker.Add(r.Offset, r.LeaderEpoch)
		if i == 0 {
			b.seq = seq
		}
	}
	t.holdMore(a, len(b.records))
	a.weight.AddAll(b.bytes)
	t.weight.AddAll(b.bytes)
	return t.reaches(a), true
}

// finishOne notes that the engine has let go of a record, or of the first records of a batch.
func (t *table) finishOne(f *engine.Finished, now time.Time) *assignment {
	if f.Stretch == nil {
		d := f.Item.Ref.(*delivery)
		if f.Verdict.Ack && !d.of.gone {
			d.of.tracker.Finish(d.seq)
		}
		d.of.weight.Remove(d.Size)
		t.weight.Remove(d.Size)
		t.letGo(d.of, 1, now)
		return d.of
	}
	b, bytes := f.Stretch.Records.(*batch), int64(0)
	for i := range f.N {
		if f.Verdict.Ack && !b.of.gone {
			b.of.tracker.Finish(b.seq + uint64(i))
		}
		bytes += b.Size(i)
	}
	b.of.weight.AddAll(-bytes)
	t.weight.AddAll(-bytes)
	t.letGo(b.of, f.N, now)
	return b.of
}
