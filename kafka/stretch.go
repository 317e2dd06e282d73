package kafka

import (
	"strings"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kgo"
)

// batch is records of one poll and partition that go through the engine as one. The client's records are kept as long as it
// is in hand: what is made of them has bytes of its own.
type batch struct {
	set     *settings
	of      *assignment
	at      cursor // of the first record
	records []*kgo.Record
	sizes   []int64 // of memory, see heldSize
	bytes   int64   // all of them
	seq     uint64  // of the first record in the tracker, the others follow
}

var _ engine.Records = (*batch)(nil)

// Len implements engine.Records.
func (b *batch) Len() int { return len(b.records) }

// Offset implements engine.Records.
func (b *batch) Offset(i int) int64 { return b.records[i].Offset }

// Size implements engine.Records.
func (b *batch) Size(i int) int64 { return b.sizes[i] }

// SentAt implements engine.Records.
func (b *batch) SentAt(i int) time.Time { return b.records[i].Timestamp }

// Lane implements engine.Records.
func (b *batch) Lane(i int) engine.Lane { return b.of.laneOf(b.set, b.records[i]) }

// Identify implements ledger.Late, for the first record.
func (b *batch) Identify() (ledger.Fingerprint, []byte) {
	r := b.records[0]
	return ledger.BodyFingerprint(r.Value), new(arena).deliveryID(b.of.log, r.LeaderEpoch, r.Offset)
}

// Messages implements engine.Records.
func (b *batch) Messages(first int, to []consumer.Message) {
	records := b.records[first : first+len(to)]
	digits := decimals(records[len(records)-1].Offset) // the largest
	id := make(arena, 0, len(b.of.name)+1+digits)
	for len(records) > 0 {
		n := cutSlab(len(records), func(i int) int64 { return b.sizes[first+i] })
		b.slab(records[:n], to, &id, digits)
		records, to, first = records[n:], to[n:], first+n
	}
}

// slab makes the messages of records that share what is allocated. In id there is room for one's id, of so many digits at most.
func (b *batch) slab(some []*kgo.Record, to []consumer.Message, id *arena, digits int) {
	bytes, n := 0, 0
	for _, r := range some {
		bytes, n = bytes+originalSize(r), n+len(r.Headers)
	}
	copies, headers := make(arena, 0, bytes), make([]ledger.Header, n)
	var names strings.Builder
	names.Grow(len(some) * (len(b.of.name) + 1 + digits))
	for i, r := range some {
		n := len(r.Headers)
		*id = (*id)[:0]
		to[i].ID = text(&names, id.recordID(b.of.name, r.Offset))
		fill(&to[i], r, b.of, &copies, headers[:n:n])
		headers = headers[n:]
	}
}

// Items implements engine.Records.
func (b *batch) Items(from, to int) []*engine.Item {
	at := b.at
	if from > 0 {
		at.prev = b.records[from-1].Offset
	}
	fresh := make([]*delivery, to-from)
	for i := range fresh {
		d := &delivery{of: b.of, seq: b.seq + uint64(from+i), record: b.records[from+i]}
		d.Size = b.Size(from + i)
		fresh[i] = d
	}
	return prepare(b.set, fresh, &at, make([]*engine.Item, 0, len(fresh)))
}
