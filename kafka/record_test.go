package kafka

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestLanes(t *testing.T) {
	t.Parallel()
	a, b := "a-1", "a-11"
	laneOf := func(o Order, partition string, key []byte) string {
		d := &delivery{of: &assignment{name: partition}}
		d.key = key
		return d.lane(o, &strings.Builder{})
	}
	if laneOf(OrderKey, a, []byte("k")) == laneOf(OrderKey, a, []byte("l")) || laneOf(OrderKey, a, []byte("k")) == laneOf(OrderKey, b, []byte("k")) {
		t.Error("two keys, or two partitions, share a lane")
	}
	if laneOf(OrderKey, a, nil) != "" || laneOf(OrderKey, a, []byte{}) == "" {
		t.Error("no key has no order, an empty key is a key")
	}
	if laneOf(OrderPartition, a, nil) != laneOf(OrderPartition, a, []byte("k")) || laneOf(OrderPartition, a, nil) == laneOf(OrderPartition, b, nil) {
		t.Error("a lane by partition is not the partition's")
	}
	if laneOf(OrderNone, a, []byte("k")) != "" {
		t.Error("no order has a lane")
	}
}

// A record is parked in the lane of its key, at its own offset; one without a key, or of another order, in none. That the first record of a
// batch has none says nothing of the others.
func TestParkLanes(t *testing.T) {
	t.Parallel()
	settingsOf := func(o Order) *settings { return &settings{Config: Config{Order: o}} }
	a := newAssignment(place{Topic: "a", Partition: 3}, topicID{1}, LogName("c", "a", topicID{1}, 3))
	a.source.scope = "scope"
	a.begin()
	none, some := &kgo.Record{Offset: 7}, &kgo.Record{Offset: 9, Key: []byte("k")}
	b := &batch{set: settingsOf(OrderKey), of: a, records: []*kgo.Record{none, some}}
	if l := b.Lane(0); l.Of != nil {
		t.Errorf("without a key: %+v", l)
	}
	if l := b.Lane(1); l.Of != a.lanes || l.Of == nil || l.Place != 9 || l.Key != engine.KeyHash([]byte("k")) || a.lanesOf(b.set) != a.lanes {
		t.Errorf("%+v", l)
	}
	for _, o := range []Order{OrderNone, OrderPartition} {
		if l := a.laneOf(settingsOf(o), some); l.Of != nil || a.lanesOf(settingsOf(o)) != nil {
			t.Errorf("order %v: %+v", o, l)
		}
	}
	first := a.lanes
	if a.begin(); a.lanes == first {
		t.Error("a new assignment knows what the one before it did")
	}
}

func recordID(topic string, partition int32, offset int64) string {
	return fmt.Sprintf("%s-%d-%d", topic, partition, offset)
}

// Nil stays nil, empty stays empty, and what a handler writes changes neither the archive nor the client's batch.
func TestRecordsAreCopied(t *testing.T) {
	t.Parallel()
	w, err := NewWorker(good(), memory.New(), nothing, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range [][]byte{nil, {}, []byte("body")} {
		r := &kgo.Record{Topic: "a", Partition: 3, Offset: 9, LeaderEpoch: 2, Key: []byte("key"), Value: value, Headers: []kgo.RecordHeader{
			{Key: "x\x00\xff", Value: nil}, {Key: "", Value: []byte{}}, {Key: "x", Value: []byte("v")}, {Key: "x", Value: []byte("w")},
		}}
		a := newAssignment(place{Topic: "a", Partition: 3}, topicID{}, "log")
		a.begin()
		a.prev = 8
		it := prepare(&w.set, []*delivery{{of: a, record: r}}, nil, nil)[0]
		if it.Msg.ID != "a-3-9" || it.Key.Pos.Offset != 9 || it.Key.Pos.Epoch != 2 || it.Key.Pos.Prev != 8 {
			t.Errorf("identity: %q %+v", it.Msg.ID, it.Key.Pos)
		}
		for i := range it.Msg.Body {
			it.Msg.Body[i] = 'X'
		}
		it.Msg.Headers[3].Value[0] = 'X'
		it.Msg.Key[0] = 'X'
		if f, delivery := it.Late.Identify(); f != ledger.BodyFingerprint(value) || string(delivery) != "log/2/9" {
			t.Errorf("value %#v: fingerprint %x, delivery %q", value, f, delivery)
		}
		c := it.Original(it)
		body, headers := c.Body, c.Headers
		if (body == nil) != (value == nil) || (it.Msg.Body == nil) != (value == nil) || !bytes.Equal(body, value) {
			t.Errorf("value %#v: body %#v, original %#v", value, it.Msg.Body, body)
		}
		if string(c.Key) != "key" {
			t.Errorf("key: %q", c.Key)
		}
		if len(headers) != 4 || headers[0].Name != "x\x00\xff" || headers[0].Value != nil || headers[1].Value == nil || string(headers[3].Value) != "w" {
			t.Errorf("headers: %q", headers)
		}
	}
}

func TestPollsFitTheRoom(t *testing.T) {
	t.Parallel()
	var m meanSize
	if got := m.fit(100_000, 64<<20); got != 33 {
		t.Errorf("nothing is known: %d records", got)
	}
	m.saw(10, 10<<10)
	if got := m.fit(100_000, 64<<20); got != pollMax {
		t.Errorf("much room: %d records", got)
	}
	if got := m.fit(7, 64<<20); got != 7 {
		t.Errorf("room for 7: %d records", got)
	}
	m.saw(10, 10<<20) // they grow at once
	if got := m.fit(10_000, 8<<20); got < 8 || got > 10 {
		t.Errorf("8 MiB and records of 1 MiB: %d records", got)
	}
	if got := m.fit(1, -5); got != 1 {
		t.Errorf("no room: %d records", got)
	}
}
