package kafka

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

func letterBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, r.IntN(n))
	for i := range b {
		b[i] = byte(r.IntN(256))
	}
	if len(b) == 0 && r.IntN(2) == 0 {
		return nil
	}
	return b
}

// randomLetter is a dead letter of a Kafka topic or an SQS queue.
func randomLetter(r *rand.Rand) *consumer.DeadLetter {
	m := consumer.Message{Body: letterBytes(r, 100), SentAt: time.UnixMilli(r.Int64N(1e13) - 1e12), Attempt: r.IntN(20), ID: string(letterBytes(r, 20)) + "i"}
	if r.IntN(2) == 0 {
		m.Source, m.Topic, m.Partition, m.Offset, m.Key = "cluster/orders", "orders", r.Int32N(9), r.Int64N(ledger.MaxOffset), letterBytes(r, 10)
		m.ID = recordID(m.Topic, m.Partition, m.Offset)
		for range r.IntN(12) {
			m.Headers = append(m.Headers, ledger.Header{Name: []string{"a", "a", "", "\xff"}[r.IntN(4)], Value: letterBytes(r, 9)})
		}
	} else {
		m.Source = "arn:aws:sqs:us-east-1:000000000000:orders.fifo"
		if r.IntN(2) == 0 {
			m.Group = "alice"
		}
		for i := range r.IntN(11) {
			m.Headers = append(m.Headers, ledger.Header{Name: fmt.Sprint("n", i), Type: []string{"String", "Binary.x,y", "Number", ""}[r.IntN(4)], Value: []byte("v")})
		}
	}
	stamp := consumer.NewStamp(m.Source, m.ID, m.Body)
	stamp.Token, stamp.Group = r.Uint64N(1<<62), "billing"
	if m.Topic != "" {
		stamp.Pos = &ledger.Position{Log: fmt.Sprint("cluster/uuid/", m.Partition), Epoch: 3, Offset: m.Offset, Prev: -1}
	}
	return &consumer.DeadLetter{
		Message: m, Delivery: []byte("delivery"), Stamp: &stamp, Kind: ledger.KindExhausted, Class: ledger.KindPanic,
		Error: consumer.DeadLetterError(string(letterBytes(r, 2000)), m.Body), Consumer: "billing", FailedAt: time.UnixMilli(1_700_000_000_123),
	}
}

// Whatever failed, what is read back of the copy is what was delivered: nil and empty, headers in their order and as often
// as they were there, key, attributes' types, group and times.
func TestDeadLetterSurvivesTheTopic(t *testing.T) {
	for seed := range uint64(3000) {
		d := randomLetter(rand.New(rand.NewPCG(seed, 1)))
		got, err := ParseDeadLetter(newDeadRecord("dead", d))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !reflect.DeepEqual(got, d) {
			t.Fatalf("seed %d:\ngot  %+v\nwant %+v", seed, got, d)
		}
		if d.Message.Topic == "" {
			continue
		}
		back, err := SourceRecord(got)
		if err != nil || back.Topic != "orders" || !bytes.Equal(back.Value, d.Message.Body) || (back.Value == nil) != (d.Message.Body == nil) ||
			!back.Timestamp.Equal(d.Message.SentAt) || len(back.Headers) != len(d.Message.Headers)+1 {
			t.Fatalf("seed %d: %v, %+v", seed, err, back)
		}
	}
}

// A message that fails again, after a replay, does not grow, and has one stamp: the new one.
func TestDeadRecordsAreReplacedNotAppended(t *testing.T) {
	d := randomLetter(rand.New(rand.NewPCG(3, 1)))
	d.Message.Source, d.Message.Topic, d.Message.Group = "cluster/orders", "orders", ""
	d.Message.Headers = []ledger.Header{{Name: "a"}, {Name: consumer.StampName, Value: []byte("of before")}, {Name: consumer.HeaderKind, Value: []byte("x")}}
	first := newDeadRecord("dead", d)
	for range 5 {
		d.Message.Headers = nil
		for _, h := range first.Headers { // somebody produced the whole copy to the source, headers and all
			d.Message.Headers = append(d.Message.Headers, ledger.Header{Name: h.Key, Value: h.Value})
		}
		if again := newDeadRecord("dead", d); !reflect.DeepEqual(first, again) {
			t.Fatalf("%v\n%v", first.Headers, again.Headers)
		}
	}
	seen := map[string]int{}
	for _, h := range first.Headers {
		seen[h.Key]++
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("header %s is there %d times", name, n)
		}
	}
}

func TestParseDeadLetterOfOthers(t *testing.T) {
	record := func(value string, headers ...string) *kgo.Record {
		r := &kgo.Record{Topic: "dead", Offset: 7, Value: []byte(value)}
		for i := 0; i < len(headers); i += 2 {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: headers[i], Value: []byte(headers[i+1])})
		}
		return r
	}
	stamp := consumer.NewStamp("cluster/orders", "orders-0-1", []byte("body"))
	stamped, err := ParseDeadLetter(record("body", consumer.StampName, stamp.String()))
	if err != nil || stamped.Message.Source != "cluster/orders" || stamped.Message.ID != "orders-0-1" || stamped.Stamp == nil {
		t.Errorf("%v, %+v", err, stamped)
	}
	if back, err := SourceRecord(stamped); err != nil || back.Topic != "orders" {
		t.Errorf("%v, %v", err, back)
	}
	forged, err := ParseDeadLetter(record("other", consumer.StampName, stamp.String(), consumer.HeaderOriginalSource, "cluster/orders", consumer.HeaderOriginalID, "x"))
	if err != nil || forged.Stamp != nil || forged.Message.ID != "x" {
		t.Errorf("%v, %+v", err, forged)
	}
	foreign, err := ParseDeadLetter(record("body", consumer.StampName, stamp.String(), consumer.HeaderOriginalSource, "cluster/bills"))
	if err != nil || foreign.Stamp != nil {
		t.Errorf("%v, %+v", err, foreign)
	}
	for name, r := range map[string]*kgo.Record{"nothing of ours": record("body"), "a stamp of another body": record("other", consumer.StampName, stamp.String())} {
		if _, err := ParseDeadLetter(r); !errors.Is(err, ErrNotDeadLetter) || !strings.Contains(err.Error(), "dead-0-7") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParseDeadLetter(record("", consumer.HeaderOriginalSource, "s", consumer.HeaderAttempts, "many")); err == nil ||
		!strings.Contains(err.Error(), `must be a decimal number of 32 bits, is "many"`) {
		t.Errorf("%v", err)
	}
}

func TestDeadLetterTopicIsValidated(t *testing.T) {
	client := func(opts ...kgo.Opt) *kgo.Client {
		c, err := kgo.NewClient(opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	made := func(c *kgo.Client, topic string) error { _, err := NewDeadLetterTopic(c, topic); return err }
	for want, err := range map[string]error{
		"client must not be nil":           made(nil, "dead"),
		"topic must be 1 to 249":           made(client(), ""),
		"kgo.RequiredAcks must not be set": made(client(kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()), "dead"),
		"kgo.TransactionalID must not":     made(client(kgo.TransactionalID("t")), "dead"),
		"kgo.ManualFlushing must not":      made(client(kgo.ManualFlushing()), "dead"),
		"must not be nil":                  StampRecord(nil, "cluster/orders", "id"),
		"must be cluster/topic":            StampRecord(&kgo.Record{}, "", "id"),
		"1 to 1024 bytes, is 0":            StampRecord(&kgo.Record{}, "cluster/orders", ""),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if err := made(client(), "dead"); err != nil {
		t.Error(err)
	}
}
