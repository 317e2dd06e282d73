package kafka

import (
	"strconv"
	"strings"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kgo"
)

// slab is how many records share what is allocated for them. One record that waits for a retry keeps its slab in memory,
// so a slab is small.
const slab = 8

// delivery is one record in the worker's hands.
type delivery struct {
	engine.Item
	of      *assignment
	seq     uint64
	record  *kgo.Record // until the item is made
	msg     consumer.Message
	pos     ledger.Position
	key     []byte
	body    []byte
	headers []ledger.Header
}

// prepare makes the items of records. The records are let go of: their bytes are pieces of whole batches, and one that
// waits for a retry must not keep the batch in memory. So there are two copies, the handler's and the one to be archived.
func prepare(s *settings, fresh []*delivery, out []*engine.Item) []*engine.Item {
	for len(fresh) > 0 {
		some := fresh[:min(slab, len(fresh))]
		fresh = fresh[len(some):]
		texts, bytes := 0, 0
		for _, d := range some {
			t, b := d.sizes(s)
			texts, bytes = texts+t, bytes+b
		}
		var names strings.Builder
		names.Grow(texts)
		copies := make(arena, 0, bytes)
		for _, d := range some {
			out = append(out, d.prepare(s, &names, &copies))
		}
	}
	return out
}

// digits is enough for any number in an id, and a separator.
const digits = 21

// decimals is the length of a number in decimal.
func decimals(n int64) int {
	if n < 0 {
		return digits
	}
	d := 1
	for ; n >= 10; n /= 10 {
		d++
	}
	return d
}

// sizes returns bounds of the bytes that a record needs as text and as bytes.
func (d *delivery) sizes(s *settings) (texts, bytes int) {
	r, a := d.record, d.of
	id := len(a.name) + 1 + decimals(r.Offset)
	texts, bytes = id, id+2*len(r.Value)+2*len(r.Key)
	if s.Audit == AuditRows {
		bytes += len(a.log) + 2*digits // of its delivery's id
	}
	for i := range r.Headers {
		bytes += 2 * len(r.Headers[i].Value)
	}
	if s.Order == OrderKey && r.Key != nil {
		texts += len(a.name) + 1 + 16
	}
	return texts, bytes
}

func (d *delivery) prepare(s *settings, names *strings.Builder, copies *arena) *engine.Item {
	r, a := d.record, d.of
	d.record = nil
	d.key, d.body = copies.clone(r.Key), copies.clone(r.Value)
	id := copies.recordID(r.Topic, r.Partition, r.Offset)
	m := &d.msg // field by field: to copy whole structs costs a record much of its time
	m.ID, m.Source, m.SentAt = text(names, id), a.source.name, r.Timestamp
	m.Key, m.Body = copies.clone(r.Key), copies.clone(r.Value)
	m.Topic, m.Partition, m.Offset = r.Topic, r.Partition, r.Offset
	if len(r.Headers) > 0 {
		both := make([]ledger.Header, 2*len(r.Headers))
		d.msg.Headers, d.headers = both[:len(r.Headers):len(r.Headers)], both[len(r.Headers):]
		for i := range r.Headers {
			d.msg.Headers[i] = ledger.Header{Name: r.Headers[i].Key, Value: copies.clone(r.Headers[i].Value)}
			d.headers[i] = ledger.Header{Name: r.Headers[i].Key, Value: copies.clone(r.Headers[i].Value)}
		}
	}
	d.pos = ledger.Position{Log: a.log, Epoch: r.LeaderEpoch, Offset: r.Offset, Prev: a.prev, First: a.first}
	d.Msg, d.Lane, d.Original, d.Ref = m, d.lane(s.Order, names), original, d
	d.Window, d.Deadline = a.source.window, a.source.deadline(r.Timestamp)
	d.Identity = engine.Identify(&s.Options, engine.Origin{
		Key: a.keys.Key(id, &d.pos), Source: a.source.name, Group: s.group, Later: s.Audit == AuditRanges,
	}, &d.msg)
	d.Ranged = s.Audit == AuditRanges && d.Key.Pos == &d.pos
	if d.Later {
		d.Late = d
	} else {
		d.Delivery = copies.deliveryID(a.log, r.LeaderEpoch, r.Offset)
	}
	// What lies between two records of an assignment, the broker has read and left out: it was compacted away, aborted, or
	// is a control record. So the ledger may take it for finished. What every worker of the group skips is so, too; what
	// has an identity of its own is not.
	if !d.Skip {
		a.prev = r.Offset
	}
	return &d.Item
}

// Identify implements ledger.Late, from what the broker delivered, whatever a handler did to its copy.
func (d *delivery) Identify() (ledger.Fingerprint, []byte) {
	return ledger.BodyFingerprint(d.body), new(arena).deliveryID(d.pos.Log, d.pos.Epoch, d.pos.Offset)
}

// original is engine.Item.Original.
func original(it *engine.Item) engine.Content {
	d := it.Ref.(*delivery)
	return engine.Content{Key: d.key, Body: d.body, Headers: d.headers}
}

// lane names what a record waits behind: its partition, or its key within its partition. Topics never share a lane. A
// record without a key has no order by key. Keys are named by a hash, because lanes are shown in Health and keys may be
// long or private; two keys that meet merely wait for each other.
func (d *delivery) lane(o Order, names *strings.Builder) string {
	switch {
	case o == OrderNone || o == OrderKey && d.msg.Key == nil:
		return ""
	case o == OrderPartition:
		return d.of.name
	}
	var b [digits]byte
	from := names.Len()
	names.WriteString(d.of.name)
	names.WriteByte('/')
	names.Write(strconv.AppendUint(b[:0], keyHash(d.msg.Key), 16))
	return names.String()[from:]
}

// keyHash is FNV-1a.
func keyHash(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range key {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// text copies p among the names.
func text(names *strings.Builder, p []byte) string {
	from := names.Len()
	names.Write(p)
	return names.String()[from:]
}

// arena hands out pieces of one allocation.
type arena []byte

// clone copies p. Nil stays nil, and empty stays empty.
func (a *arena) clone(p []byte) []byte {
	if p == nil {
		return nil
	}
	n := len(*a)
	*a = append(*a, p...)
	return (*a)[n:len(*a):len(*a)]
}

// recordID appends a record's readable identity.
func (a *arena) recordID(topic string, partition int32, offset int64) []byte {
	n := len(*a)
	b := append(append(*a, topic...), '-')
	b = append(strconv.AppendInt(b, int64(partition), 10), '-')
	*a = strconv.AppendInt(b, offset, 10)
	return (*a)[n:len(*a):len(*a)]
}

// deliveryID appends the id of one record as one copy of a message: the log, the leader epoch and the offset.
func (a *arena) deliveryID(log string, epoch int32, offset int64) []byte {
	n := len(*a)
	b := append(append(*a, log...), '/')
	b = append(strconv.AppendInt(b, int64(epoch), 10), '/')
	*a = strconv.AppendInt(b, offset, 10)
	return (*a)[n:len(*a):len(*a)]
}
