package kafka

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
)

// Whatever lies in a dead-letter topic: it is read or refused without a panic; a stamp is believed only of this source and
// value; what was read is the same after it is dead-lettered once more.
func FuzzParseDeadLetter(f *testing.F) {
	stamp := consumer.NewStamp("cluster/orders", "orders-0-7", []byte("value"))
	f.Add([]byte("value"), []byte("key"), "a", []byte("b"), stamp.String(), "cluster/orders", "0", "7", "1700000000123", "", "")
	f.Add([]byte("value"), []byte(nil), "a", []byte(nil), "", "arn:aws:sqs:us-east-1:000000000000:q", "", "", "", "String", "group")
	f.Add([]byte(nil), []byte{}, "\xff", []byte{}, "v=1", "x", "99999999999", "-1", "9223372036854775807", "%zz,", "\x00")
	f.Fuzz(func(t *testing.T, value, key []byte, name string, header []byte, stamp, source, partition, offset, sent, types, group string) {
		r := &kgo.Record{Topic: "dead", Value: value, Key: key, Headers: []kgo.RecordHeader{{Key: name, Value: header}}}
		for to, text := range map[string]string{
			consumer.StampName: stamp, consumer.HeaderOriginalSource: source, consumer.HeaderOriginalPartition: partition,
			consumer.HeaderOriginalOffset: offset, consumer.HeaderOriginalTimestamp: sent, consumer.HeaderOriginalTypes: types,
			consumer.HeaderOriginalGroup: group,
		} {
			if text != "" {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: to, Value: []byte(text)})
			}
		}
		d, err := ParseDeadLetter(r)
		if err != nil {
			return
		}
		if s := d.Stamp; s != nil && (!s.Counts(d.Message.Source, ledger.BodyFingerprint(d.Message.Body)) || len(s.ID) > ledger.MaxID || s.ID != d.Message.ID) {
			t.Fatalf("a stamp of something else: %+v of %+v", s, d.Message)
		}
		if back, err := SourceRecord(d); err == nil && (!isTopicName(back.Topic) || !bytes.Equal(back.Value, value)) {
			t.Fatalf("sent back as %+v", back)
		}
		if d.Message.Source == "" {
			return
		}
		again, err := ParseDeadLetter(newDeadRecord("dead", d))
		if err != nil {
			t.Fatalf("what was read is not read again: %v", err)
		}
		if !reflect.DeepEqual(again.Message.Body, d.Message.Body) || !reflect.DeepEqual(again.Message.Headers, d.Message.Headers) ||
			again.Message.Source != d.Message.Source || again.Message.Group != d.Message.Group || !reflect.DeepEqual(again.Stamp, d.Stamp) {
			t.Fatalf("read\n%+v\nthen\n%+v", d, again)
		}
	})
}

// Whatever a record holds: an item comes of it that a ledger takes and that has the record's bytes, which the record can
// be let go of for.
func FuzzPrepare(f *testing.F) {
	stamp := consumer.NewStamp("cluster/orders", "order-1", []byte("value"))
	stamp.Group = "shipping"
	f.Add([]byte("value"), []byte("key"), consumer.StampName, []byte(stamp.String()), int64(7), int64(1_700_000_000_000), uint8(0))
	f.Add([]byte(nil), []byte(nil), "\xff\x00", []byte(nil), int64(1<<62), int64(-1), uint8(1))
	f.Add([]byte{}, []byte{}, "", []byte{}, int64(0), int64(1<<62), uint8(2))
	f.Fuzz(func(t *testing.T, value, key []byte, name string, header []byte, offset, sent int64, order uint8) {
		if offset < 0 {
			return // no broker's
		}
		offset = min(offset, ledger.MaxOffset) // no partition gets as far
		const topic, log = "orders", "cluster/uuid/0"
		s := &settings{Config: Config{Order: Order(order % 3)}, client: client{group: "billing"}, archive: 1 << 20}
		s.MaxHeldBytes = 1 << 20
		a := &assignment{
			log: log, name: "orders-0", cursor: cursor{keys: ledger.LogKeys{Scope: "kafka:cluster/orders/billing", Log: log}, prev: -1},
			source: topicSource{scope: "kafka:cluster/orders/billing", name: "cluster/orders", window: time.Hour, keeps: time.Hour},
		}
		r := &kgo.Record{Topic: topic, Value: bytes.Clone(value), Key: bytes.Clone(key), Offset: offset, LeaderEpoch: 3, Timestamp: time.UnixMilli(sent),
			Headers: []kgo.RecordHeader{{Key: name, Value: bytes.Clone(header)}}}
		it := prepare(s, []*delivery{{of: a, record: r}}, nil, nil)[0]
		for _, b := range [][]byte{r.Value, r.Key, r.Headers[0].Value} { // the record's memory is used for something else
			for i := range b {
				b[i] ^= 0xff
			}
		}
		if m, c := it.Msg, it.Original(it); !reflect.DeepEqual(m.Body, value) || !reflect.DeepEqual(c.Body, value) || !reflect.DeepEqual(m.Key, key) ||
			!reflect.DeepEqual(c.Headers, []ledger.Header{{Name: name, Value: header}}) {
			t.Fatalf("message %+v, original %+v", m, c)
		}
		delivery := it.Delivery
		if it.Late != nil {
			_, delivery = it.Late.Identify()
		}
		if err := checks.Entry(&ledger.Entry{Key: it.Key, Delivery: delivery, Window: it.Window}); err != nil && !errors.Is(err, it.Invalid) {
			t.Fatalf("no ledger takes it: %v", err)
		}
	})
}
