package kafka

import (
	"context"
	"fmt"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

const (
	hugeBody = 50 << 20
	// poisonHeap bounds what a worker, the fake cluster and the ledger in memory take together: each holds the huge record,
	// and each copy of it (the dead letter is one more record) is counted.
	poisonHeap = 16 * hugeBody
)

// poison is what no handler can read, by what is wrong with it; and text that is in its error.
func poison() (records map[string]*kgo.Record, errors map[string]string) {
	forged := consumer.NewStamp("another cluster/orders", "orders-0-0", []byte("good 0"))
	hostile := []kgo.RecordHeader{
		{Key: ""}, {Key: "\x00\xff\r\n\x1b[2J", Value: []byte("\x1b]0;owned\a")}, {Key: strings.Repeat("n", 100_000), Value: []byte{}},
		{Key: consumer.StampName, Value: []byte(forged.String())}, {Key: consumer.StampName, Value: []byte("v=1&fp=%zz")},
		{Key: consumer.HeaderOriginalSource, Value: []byte("x")}, {Key: consumer.HeaderKind, Value: []byte("\xff")}, {Key: "traceparent", Value: []byte("00-x-y-z")},
	}
	many := make([]kgo.RecordHeader, 10_000)
	for i := range many {
		many[i] = kgo.RecordHeader{Key: fmt.Sprint("header ", i%100), Value: []byte("value")}
	}
	return map[string]*kgo.Record{
			"50 MB":         {Value: slices.Concat([]byte(`{"id":"`), make([]byte, hugeBody))},
			"deep JSON":     {Value: []byte(strings.Repeat(`{"a":`, 100_000))},
			"invalid UTF-8": {Key: []byte("\xff\xfe"), Value: []byte("\xff\xfe\x00")},
			"many headers":  {Value: []byte("many"), Headers: many},
			"hostile names": {Value: []byte("names"), Headers: hostile},
		}, map[string]string{
			"50 MB": "not JSON at byte 8 of", "deep JSON": "nested deeper than 1000 levels at byte 5000", "invalid UTF-8": "not JSON at byte 1 of 3",
			"many headers": "not JSON at byte 1 of 4", "hostile names": "not JSON at byte",
		}
}

// A record that nobody can read took down consumers: it filled their memory, or crashed them, was delivered again and
// crashed the next. Each runs once, fails for good with a clear error, is in the archive and in the dead-letter topic to
// the byte, and costs its neighbours nothing; memory stays below a bound.
func TestPitfall70_PoisonRecords(t *testing.T) {
	for name, audit := range audits { // one after the other: the heap is measured
		t.Run(name, func(t *testing.T) { poisonRecords(fakeSite(t, 1).with(audit)) })
	}
}

func poisonRecords(s *site) {
	t := s.t
	s.ledger = memory.New(memory.WithLimits(ledger.Limits{Result: 1 << 10, Archive: 64 << 20, Errors: 16 << 10}))
	limit := "62914560" // 60 MiB
	dead := s.topic + ".dlq"
	if _, err := s.adm.CreateTopics(t.Context(), 1, 1, map[string]*string{"max.message.bytes": &limit}, dead, s.topic+"-big"); err != nil {
		t.Fatal(err)
	}
	s.topic += "-big"
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ProducerBatchMaxBytes(60<<20), kgo.BrokerMaxWriteBytes(100<<20),
		kgo.RequestTimeoutOverhead(time.Minute), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	records, want := poison()
	names := []string{"50 MB", "deep JSON", "invalid UTF-8", "many headers", "hostile names"}
	highest := heapDuring(t, func() {
		for i, name := range names {
			r := *records[name]
			r.Topic = s.topic
			good := &kgo.Record{Topic: s.topic, Value: fmt.Appendf(nil, `{"id":"good %d"}`, i)}
			if err := client.ProduceSync(t.Context(), good, &r).FirstErr(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		runPoisoned(t, s, client, dead, len(names))
	})
	if highest > poisonHeap {
		t.Errorf("the heap grew by %d MiB, want at most %d MiB", highest>>20, poisonHeap>>20)
	}
	t.Logf("the heap grew by %d MiB at most", highest>>20)
	archived := map[string]ledger.DeadLetter{}
	for d, err := range s.ledger.DeadLetters(t.Context(), ledger.Filter{Body: true}) {
		if err != nil {
			t.Fatal(err)
		}
		archived[string(d.Body[:min(len(d.Body), 100)])] = d
	}
	for _, name := range names {
		r := records[name]
		d, ok := archived[string(r.Value[:min(len(r.Value), 100)])]
		if !ok || len(d.Errors) != 1 || !d.Sent || len(d.Headers) != len(r.Headers) || len(d.Body) != len(r.Value) {
			t.Errorf("%s: archived %v, %v, sent %v, %d headers, %d bytes", name, ok, d.Errors, d.Sent, len(d.Headers), len(d.Body))
			continue
		}
		text := d.Errors[0].Error
		if !strings.Contains(text, want[name]) || !utf8.ValidString(text) || len(text) > 300 {
			t.Errorf("%s: %.400s", name, text)
		}
	}
	if len(archived) != len(names) {
		t.Errorf("%d dead letters, want %d", len(archived), len(names))
	}
	readBack(t, s, dead, len(names))
}

// runPoisoned runs a worker until the group is at the end.
func runPoisoned(t *testing.T, s *site, client *kgo.Client, dead string, n int) {
	t.Helper()
	target, err := NewDeadLetterTopic(client, dead)
	if err != nil {
		t.Fatal(err)
	}
	runs := newBook()
	type order struct{ ID string }
	decode := consumer.JSON(func(_ context.Context, o order) error { runs.add(&consumer.Message{Body: []byte(o.ID)}); return nil })
	c := quick()
	c.DeadLetter, c.DeadLetterTimeout, c.Lease, c.Drain = target, time.Minute, 30*time.Second, 5*time.Second
	var mu sync.Mutex
	calls := map[string]int{}
	r := s.start(func(ctx context.Context, m *consumer.Message) error {
		mu.Lock()
		calls[m.ID]++
		mu.Unlock()
		return decode.Handle(ctx, m)
	}, c, kgo.RequestTimeoutOverhead(time.Minute)) // a busy machine moves 50 MB slowly
	for deadline := time.Now().Add(3 * time.Minute); s.committed(0) < int64(2*n); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d records are committed", s.committed(0), 2*n)
		}
	}
	r.end()
	runs.once(t, numbers("good ", n))
	if len(calls) != 2*n {
		t.Errorf("%d records were handled, want %d", len(calls), 2*n)
	}
	for id, k := range calls {
		if k != 1 {
			t.Errorf("%s was handled %d times", id, k)
		}
	}
}

// readBack reads the dead-letter topic as a replay does.
func readBack(t *testing.T, s *site, dead string, n int) {
	t.Helper()
	reader, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ConsumeTopics(dead))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	seen := 0
	for seen < n {
		fetches := reader.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			seen++
			if d, err := ParseDeadLetter(r); err != nil || d.Stamp == nil || !strings.HasPrefix(d.Message.Source, "kfake/") {
				t.Errorf("record %d of the dead-letter topic: %+v, %v", r.Offset, d, err)
			}
		})
	}
}

// heapDuring returns by how many bytes of live and not yet swept objects the heap grew at most while f ran.
func heapDuring(t *testing.T, f func()) uint64 {
	t.Helper()
	read := func() uint64 {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	before := read()
	highest := before
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			highest = max(highest, read())
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	})
	func() {
		defer watching.Wait() // also when f ends the test
		defer close(stop)
		f()
	}()
	return highest - before
}
