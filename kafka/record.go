package kafka

import (
	"hash/fnv"
	"strconv"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kgo"
)

// delivery is one record in the worker's hands.
type delivery struct {
	engine.Item
	of      *assignment
	seq     uint64
	prev    int64
	record  *kgo.Record // until the item is made
	body    []byte
	headers []ledger.Header
}

// prepare makes the item. The record is let go of: its bytes are a piece of a whole batch, and one record that waits for
// a retry must not keep the batch in memory. So there are two copies, the handler's and the one to be archived.
func (d *delivery) prepare(s *settings) *engine.Item {
	r, a := d.record, d.of
	d.record = nil
	size := 2*len(r.Value) + len(r.Key)
	for i := range r.Headers {
		size += 2 * len(r.Headers[i].Value)
	}
	copies := make(arena, 0, size)
	d.body = copies.clone(r.Value)
	m := &consumer.Message{
		ID:     recordID(r.Topic, r.Partition, r.Offset),
		Source: a.source.name, Key: copies.clone(r.Key), Body: copies.clone(r.Value),
		SentAt: r.Timestamp, Topic: r.Topic, Partition: r.Partition, Offset: r.Offset,
	}
	if len(r.Headers) > 0 {
		m.Headers, d.headers = make([]ledger.Header, len(r.Headers)), make([]ledger.Header, len(r.Headers))
		for i := range r.Headers {
			m.Headers[i] = ledger.Header{Name: r.Headers[i].Key, Value: copies.clone(r.Headers[i].Value)}
			d.headers[i] = ledger.Header{Name: r.Headers[i].Key, Value: copies.clone(r.Headers[i].Value)}
		}
	}
	d.Item = engine.Item{
		Msg: m, Delivery: deliveryID(a.log, r.LeaderEpoch, r.Offset), Lane: laneOf(s.Order, a.place, r.Key),
		Window: a.source.window, Deadline: a.source.deadline(r.Timestamp), Original: original, Ref: d,
	}
	d.Identity = engine.Identify(&s.Options, engine.Origin{
		Scope: a.source.scope, Source: a.source.name, Group: s.group,
		Pos: &ledger.Position{Log: a.log, Epoch: r.LeaderEpoch, Offset: r.Offset, Prev: d.prev},
	}, m)
	return &d.Item
}

func original(it *engine.Item) engine.Content {
	d := it.Ref.(*delivery)
	return engine.Content{Key: it.Msg.Key, Body: d.body, Headers: d.headers}
}

// recordID is a record's readable identity.
func recordID(topic string, partition int32, offset int64) string {
	b := make([]byte, 0, len(topic)+24)
	b = append(append(b, topic...), '-')
	b = append(strconv.AppendInt(b, int64(partition), 10), '-')
	return string(strconv.AppendInt(b, offset, 10))
}

// laneOf names what a record waits behind: its partition, or its key within its partition. Topics never share a lane. A
// record without a key has no order by key. Keys are named by a hash, because lanes are shown in Health and keys may be
// long or private; two keys that meet merely wait for each other.
func laneOf(o Order, p place, key []byte) string {
	if o == OrderNone || o == OrderKey && key == nil {
		return ""
	}
	b := make([]byte, 0, len(p.topic)+32)
	b = append(append(b, p.topic...), '-')
	b = strconv.AppendInt(b, int64(p.partition), 10)
	if o == OrderKey {
		h := fnv.New64a()
		h.Write(key)
		b = strconv.AppendUint(append(b, '/'), h.Sum64(), 16)
	}
	return string(b)
}

// arena hands out copies from one allocation.
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
