package kafka

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A record becomes the engine's item for less than one allocation, beside those of its headers: the engine has up to 4
// for a message (see TestAllocationsOfAMessage there), and this comes out of them.
func TestAllocationsOfARecord(t *testing.T) {
	w, err := NewWorker(good(), memory.New(), nothing, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		order   Order
		headers int
		most    float64
	}{
		"plain": {OrderNone, 0, 1.5}, "by key": {OrderKey, 0, 1.5}, "by partition": {OrderPartition, 0, 1.5}, "with headers": {OrderNone, 3, 2.5},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 64
			set := w.set
			set.Order = c.order
			records := make([]*kgo.Record, n)
			for i := range records {
				records[i] = &kgo.Record{Topic: "orders", Partition: 3, Offset: int64(i), Key: []byte("key"), Value: make([]byte, 200)}
				for range c.headers {
					records[i].Headers = append(records[i].Headers, kgo.RecordHeader{Key: "name", Value: []byte("value")})
				}
			}
			a := newAssignment(place{Topic: "orders", Partition: 3}, topicID{}, "log")
			a.begin()
			out, fresh := make([]*engine.Item, 0, n), make([]*delivery, 0, n)
			got := testing.AllocsPerRun(50, func() {
				fresh = fresh[:0]
				for _, r := range records {
					fresh = append(fresh, &delivery{of: a, record: r})
				}
				if out = prepare(&set, fresh, nil, out[:0]); len(out) != n {
					t.Fatalf("%d items", len(out))
				}
			}) / n
			if got > c.most {
				t.Errorf("%.2f allocations a record, at most %v", got, c.most)
			}
			t.Logf("%.2f allocations a record", got)
		})
	}
}

// A record that waits keeps what was allocated with it, which is bounded: its slab, and no more.
func TestSlabsShareNothingAmongEachOther(t *testing.T) {
	t.Parallel()
	w, err := NewWorker(good(), memory.New(), nothing, nil)
	if err != nil {
		t.Fatal(err)
	}
	const n = 3*slab + 1
	fresh := make([]*delivery, n)
	a := newAssignment(place{Topic: "orders", Partition: 3}, topicID{}, "log")
	a.begin()
	for i := range fresh {
		fresh[i] = &delivery{of: a, record: &kgo.Record{Topic: "orders", Partition: 3, Offset: int64(i), Key: []byte{byte(i)}, Value: []byte{byte(i), 'x'}}}
	}
	items := prepare(&w.set, fresh, nil, nil)
	for i, it := range items { // whatever a handler does to its copies, also beyond their ends
		m := it.Msg
		m.Body = append(append(m.Body[:0], 'X', 'Y'), make([]byte, 1000)...)
		m.Key = append(m.Key, make([]byte, 1000)...)
		it.Delivery = append(it.Delivery, "more"...)
		if it.Msg.ID != recordID("orders", 3, int64(i)) {
			t.Errorf("record %d is called %q", i, it.Msg.ID)
		}
	}
	for i, it := range items {
		c := it.Original(it)
		if string(c.Key) != string([]byte{byte(i)}) || string(c.Body) != string([]byte{byte(i), 'x'}) {
			t.Errorf("record %d: key %q, body %q", i, c.Key, c.Body)
		}
		plain := ledger.Key{Scope: it.Key.Scope, ID: it.Key.ID, Pos: it.Key.Pos}
		if it.Key.Sum() != plain.Sum() || string(it.Key.ID) != recordID("orders", 3, int64(i)) {
			t.Errorf("record %d: key %v", i, it.Key)
		}
	}
}

// A dead letter is read and made its source's record again for few allocations: a replay does it for each message.
func TestAllocationsOfALetter(t *testing.T) {
	stamp := consumer.NewStamp("cluster/orders", "order-17", []byte("body"))
	stamp.Token = 1
	dead := newDeadRecord("dead", &consumer.DeadLetter{
		Message:  consumer.Message{ID: "order-17", Source: "cluster/orders", Key: []byte("17"), Body: []byte("body"), Attempt: 10, SentAt: time.Now()},
		Delivery: []byte("d"), Stamp: &stamp, Kind: ledger.KindExhausted, Consumer: "billing", FailedAt: time.Now(),
	})
	const most = 11
	got := testing.AllocsPerRun(100, func() {
		l := newLetter(dead)
		if _, err := SourceRecord(&l.DeadLetter); err != nil || l.Unreadable != nil {
			t.Fatal(err, l.Unreadable)
		}
	})
	if got > most {
		t.Errorf("%v allocations a letter, at most %v", got, most)
	}
	t.Logf("%v allocations a letter", got)
}

func TestIsTopicName(t *testing.T) {
	want := regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)
	names := []string{"", ".", "a\n", "ü", strings.Repeat("x", 249), strings.Repeat("x", 250)}
	for c := range 256 {
		names = append(names, string([]byte{'a', byte(c)}))
	}
	for _, name := range names {
		if isTopicName(name) != want.MatchString(name) {
			t.Errorf("%q: %v", name, isTopicName(name))
		}
	}
}
