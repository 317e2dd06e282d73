package kafka

import (
	"slices"
	"strings"
	"time"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/twmb/franz-go/pkg/kgo"
)

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
	it.OrderingKey = d.lane(b.set.Order, &names)
}
