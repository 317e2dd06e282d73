package kafka

import (
	"strconv"
	"strings"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/locks"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kgo"
)

// slab is how many records share what is allocated for their bytes, and slabBytes from how many bytes on they do not. One record
// that waits for a retry keeps its slab in memory, so a slab is small.
const (
	slab      = 8
	slabBytes = 1 << 10
)

// cutSlab returns how many of n records share what is allocated.
func cutSlab(n int, size func(i int) int64) int {
	n = min(n, slab)
	bytes := int64(0)
	for i := range n {
		if bytes += size(i) - recordOverhead; bytes > slabBytes {
			return max(i, 1)
		}
	}
	return n
}

// delivery is one record in the worker's hands.
type delivery struct {
	engine.Item
	of     *assignment
	seq    uint64
	record *kgo.Record // until the item is made
	msg    consumer.Message
	pos    ledger.Position
	lock   *locks.Hold // of a share group's record; nil: it is another's

	key, body []byte // the original's copies
	headers   []ledger.Header
}

// prepare makes the items of records. The records are let go of: their bytes are pieces of whole batches, and one that
// waits for a retry must not keep the batch in memory. So there are two copies, the handler's and the one to be archived.
// at is where their partition is; nil: each assignment knows.
func prepare(s *settings, fresh []*delivery, at *cursor, out []*engine.Item) []*engine.Item {
	for len(fresh) > 0 {
		some := fresh[:cutSlab(len(fresh), func(i int) int64 { return fresh[i].Size })]
		fresh = fresh[len(some):]
		texts, bytes := 0, 0
		for _, d := range some {
			t, b := d.sizes(s)
			texts, bytes = texts+t+d.laneSize(s.Order, d.record.Key), bytes+b
			if !s.isLarge(d.record) {
				bytes += originalSize(d.record)
			}
		}
		var names strings.Builder
		names.Grow(texts)
		copies := make(arena, 0, bytes)
		for _, d := range some {
			out = append(out, d.prepare(s, &names, &copies, at))
		}
	}
	return out
}

// longest is enough for any number in an id, and a separator.
const longest = 21

// decimals is the length of a number in decimal.
func decimals(n int64) int {
	if n < 0 {
		return longest
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
	texts, bytes = id, id+len(r.Value)+len(r.Key)
	if s.Audit == AuditRows {
		bytes += len(a.log) + 2*longest // of its delivery's id
	}
	for i := range r.Headers {
		bytes += len(r.Headers[i].Value)
	}
	return texts, bytes
}

func (d *delivery) prepare(s *settings, names *strings.Builder, copies *arena, at *cursor) *engine.Item {
	r, a := d.record, d.of
	if d.record = nil; at == nil {
		at = &a.cursor
	}
	id := copies.recordID(a.name, r.Offset)
	var headers []ledger.Header
	n := len(r.Headers)
	if n > 0 {
		headers = make([]ledger.Header, 2*n)
	}
	d.msg.ID, d.headers = text(names, id), headers[n:]
	fill(&d.msg, r, a, copies, headers[:n:n])
	d.pos = ledger.Position{Log: a.log, Epoch: r.LeaderEpoch, Offset: r.Offset, Prev: at.prev, First: at.first}
	d.Msg, d.Log, d.Original, d.Ref = &d.msg, a.log, original, d
	d.Window, d.Deadline = a.source.window, a.source.deadline(r.Timestamp)
	d.Identity = engine.Identify(&s.Options, engine.Origin{
		Key: at.keys.Key(id, &d.pos), Source: a.source.name, Group: s.group, Later: s.Audit == AuditRanges, Records: d,
	}, &d.msg)
	d.Ranged = s.Audit == AuditRanges && d.Key.Pos == &d.pos
	if d.Later {
		d.Late = d
	} else {
		d.Delivery = copies.deliveryID(a.log, r.LeaderEpoch, r.Offset)
	}
	// What lies between two records of an assignment, the broker has read and left out: it was compacted away, aborted, or
	// is a control record. So the ledger may take it for finished. What every worker of the group skips is so, too; what
	// has an identity of its own is not. Between two records of a share group others have theirs.
	if !d.Skip && !s.share {
		at.prev = r.Offset
	}
	if s.isLarge(r) {
		d.keepWhole(r)
	} else {
		d.keep(r, copies)
	}
	d.OrderingKey, d.Lane = d.lane(s.Order, names), a.laneOf(s, r)
	return &d.Item
}

// fill makes a record's message, but for its id. headers are as many as the record's. It goes field by field: to copy whole
// structs costs a record much of its time.
func fill(m *consumer.Message, r *kgo.Record, a *assignment, copies *arena, headers []ledger.Header) {
	m.Source, m.SentAt = a.source.name, r.Timestamp
	m.Key, m.Body = copies.clone(r.Key), copies.clone(r.Value)
	m.Topic, m.Partition, m.Offset = r.Topic, r.Partition, r.Offset
	if len(headers) > 0 {
		m.Headers = headers
		copyHeaders(headers, r, copies)
	}
}

// copyHeaders copies those of a record; to is as long as they are.
func copyHeaders(to []ledger.Header, r *kgo.Record, copies *arena) {
	for i := range r.Headers {
		to[i] = ledger.Header{Name: r.Headers[i].Key, Value: copies.clone(r.Headers[i].Value)}
	}
}

// originalSize is how many bytes keep copies.
func originalSize(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Value)
	}
	return n
}

// keep makes the copy to be archived.
func (d *delivery) keep(r *kgo.Record, copies *arena) {
	d.key, d.body = copies.clone(r.Key), copies.clone(r.Value)
	copyHeaders(d.headers, r, copies)
}

// isLarge says that a record is larger than the ledger archives, or than a quarter of what the worker holds. It is most of its
// batch, so it keeps its bytes instead of a copy, and it goes through the engine by itself.
func (s *settings) isLarge(r *kgo.Record) bool {
	return archivedSize(r) > s.archive || heldSize(r) > s.MaxHeldBytes/4
}

// What a record takes in memory beside its bytes, by measurement (TestHeldBytesAreMemory): the delivery, its names, its place
// in queues and in the tracker; and the two copies of a header without its value.
const (
	recordOverhead = 1500
	headerOverhead = 144
)

// heldSize is how many bytes of memory a record takes in hand: the handler's copy, the one to be archived, and what is made
// for them. As long as it is part of a stretch it takes less.
func heldSize(r *kgo.Record) int64 {
	n := recordOverhead + 2*(len(r.Key)+len(r.Value))
	for i := range r.Headers {
		n += headerOverhead + len(r.Headers[i].Key) + 2*len(r.Headers[i].Value)
	}
	return int64(n)
}

// archivedSize is what a record counts against the ledger's Limits.Archive.
func archivedSize(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// revive is engine.Config.Revive. Where the record lies its delivery says.
func revive(p *ledger.Parked) *consumer.Message {
	m := &consumer.Message{ID: string(p.Key.ID), Source: p.Source, Body: p.Body, Headers: p.Headers, SentAt: p.SentAt}
	if p.Group != "" {
		m.Key = []byte(p.Group)
	}
	_, m.Topic, _ = strings.Cut(p.Source, "/")
	parts := strings.Split(string(p.Delivery), "/") // cluster, topic id, partition, epoch, offset
	if n := len(parts); n >= 3 {
		partition, _ := strconv.ParseInt(parts[n-3], 10, 32)
		m.Offset, _ = strconv.ParseInt(parts[n-1], 10, 64)
		m.Partition = int32(partition)
	}
	return m
}

// keepWhole is keep without a copy.
func (d *delivery) keepWhole(r *kgo.Record) {
	d.key, d.body = r.Key, r.Value
	for i := range r.Headers {
		d.headers[i] = ledger.Header{Name: r.Headers[i].Key, Value: r.Headers[i].Value}
	}
}

// original is what the broker delivered.
func (d *delivery) original() engine.Content {
	return engine.Content{Key: d.key, Body: d.body, Headers: d.headers}
}

// Identify implements ledger.Late, from what the broker delivered, whatever a handler did to its copy.
func (d *delivery) Identify() (ledger.Fingerprint, []byte) {
	return ledger.BodyFingerprint(d.original().Body), new(arena).deliveryID(d.pos.Log, d.pos.Epoch, d.pos.Offset)
}

// Exists implements engine.Known. A record can only be a copy of one that was there before it: in its own partition, of one
// before it; in another of this topic, of one below the end. A stamp for the topic's former life names nothing that this
// topic has, or will have.
func (d *delivery) Exists(p *ledger.Position) bool {
	a := d.of
	partition, ok := partitionOf(p.Log, a.log)
	switch {
	case !ok:
		return false
	case partition == a.Partition:
		return p.Offset < d.pos.Offset && p.Epoch <= d.pos.Epoch
	}
	return a.horizon != nil && a.horizon.reaches(a.Topic, a.id, partition, p.Offset, p.Epoch)
}

// original is engine.Item.Original.
func original(it *engine.Item) engine.Content { return it.Ref.(*delivery).original() }

// of matches the items of assignments.
func of(list ...*assignment) func(*engine.Item) bool {
	set := make(map[*assignment]bool, len(list))
	for _, a := range list {
		set[a] = true
	}
	return func(it *engine.Item) bool { return set[it.Ref.(*delivery).of] }
}

// lane names what a record waits behind: its partition, or its key within its partition. Topics never share a lane. A
// record without a key has no order by key. Keys are named by a hash, because lanes are shown in Health and keys may be
// long or private; two keys that meet merely wait for each other.
func (d *delivery) lane(o Order, names *strings.Builder) string {
	switch {
	case o == OrderNone || o == OrderKey && d.key == nil:
		return ""
	case o == OrderPartition:
		return d.of.name
	}
	var b [longest]byte
	from := names.Len()
	names.WriteString(d.of.name)
	names.WriteByte('/')
	names.Write(strconv.AppendUint(b[:0], engine.KeyHash(d.key), 16))
	return names.String()[from:]
}

// laneOf is where a record is parked with order by key: at its own offset in its key's lane, whatever message a stamp names.
func (a *assignment) laneOf(s *settings, r *kgo.Record) engine.Lane {
	of := a.lanesOf(s)
	if of == nil || r.Key == nil {
		return engine.Lane{}
	}
	return engine.Lane{Of: of, Key: engine.KeyHash(r.Key), Place: r.Offset}
}

// lanesOf are an assignment's lanes; nil: its records are in none.
func (a *assignment) lanesOf(s *settings) *engine.Lanes {
	if s.Order != OrderKey {
		return nil
	}
	return a.lanes
}

// laneSize is a bound of the bytes that a lane needs for itself.
func (d *delivery) laneSize(o Order, key []byte) int {
	if o != OrderKey || key == nil {
		return 0
	}
	return len(d.of.name) + 1 + 16
}

// text copies p among the names.
func text(names *strings.Builder, p []byte) string {
	from := names.Len()
	names.Write(p)
	return names.String()[from:]
}
