package kafka

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/twmb/franz-go/pkg/kgo"
)

// sendZeros produces a record of n zeros, which is tiny on its way and in the log: a topic's max.message.bytes does not see it.
func (s *site) sendZeros(partition int32, n int, headers ...kgo.RecordHeader) {
	s.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ProducerBatchMaxBytes(99<<20), kgo.BrokerMaxWriteBytes(100<<20),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	r := &kgo.Record{Topic: s.topic, Partition: partition, Key: []byte("zeros"), Value: make([]byte, n), Headers: headers}
	if err := client.ProduceSync(s.t.Context(), r).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// limited is a ledger that archives at most n bytes of a message.
func limited(n int) *memory.Ledger {
	return memory.New(memory.WithLimits(ledger.Limits{Result: 1 << 10, Archive: n, Errors: 16 << 10}))
}

// isZeros says that a message is the one of sendZeros.
func isZeros(m *consumer.Message) bool { return string(m.Key) == "zeros" }

// A record was larger than the ledger archives, since the topic's limit is of what is compressed. It failed for good, its
// settlement was refused, its handler ran again for ever, and nothing else was handled. It runs once, is archived without its
// body and published whole, and the others go on.
func TestPitfall122_OneRecordStopsTheWorker(t *testing.T) {
	onBoth(t, 2, oneRecordStopsNobody)
}

func oneRecordStopsNobody(s *site) {
	t := s.t
	const size = 5 << 20
	s.ledger = limited(4 << 20)
	s.send(0, numbers("before ", 50)...)
	s.sendZeros(0, size, kgo.RecordHeader{Key: "trace", Value: []byte("7")})
	s.send(0, numbers("behind ", 500)...)
	s.send(1, numbers("other ", 500)...)
	var runs atomic.Int64
	b, c := newBook(), quick()
	c.MaxHeldBytes, c.Attempts = 4<<20, 3
	r := s.start(func(ctx context.Context, m *consumer.Message) error {
		if isZeros(m) {
			runs.Add(1)
			return consumer.Terminal(errors.New("too large for me"))
		}
		return b.handle(ctx, m)
	}, c)
	s.caughtUp()
	h := r.Health()
	if at := recordID(s.topic, 0, 50); !h.Ready || !strings.Contains(strings.Join(h.Warnings, ""), at) || len(h.Stalled) > 0 {
		t.Errorf("%+v", h)
	}
	r.end()
	if b.len() != 1050 || runs.Load() != 1 {
		t.Errorf("%d others, %d runs", b.len(), runs.Load())
	}
	for d, err := range s.ledger.DeadLetters(t.Context(), ledger.Filter{Body: true}) {
		if left, ok := d.LeftOut(); err != nil || !ok || left.Bytes != size || d.Body != nil || d.Headers[0].Name != "trace" || d.Key.Pos == nil && len(d.Delivery) == 0 {
			t.Errorf("%v: %+v, %+v", err, left, d)
		}
	}
}

// A large record that waits for a retry keeps no other record waiting: none of another partition, and none of its own but what the
// order puts behind it.
func TestPitfall122_LargeRecordWaits(t *testing.T) {
	for name, c := range map[string]struct {
		order   Order
		handled int
	}{"by key": {OrderKey, 2000}, "by partition": {OrderPartition, 1000}, "unordered": {OrderNone, 2000}} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(t *testing.T, audit Audit) { largeRecordWaits(fakeSite(t, 2).with(audit), c.order, c.handled) })
		})
	}
}

func largeRecordWaits(s *site, order Order, handled int) {
	t := s.t
	s.ledger = limited(16 << 20)
	s.sendZeros(0, 5<<20)
	s.send(0, numbers("same ", 1000)...)
	s.send(1, numbers("other ", 1000)...)
	b, c := newBook(), quick()
	c.Order, c.MaxHeldBytes, c.NoParking = order, 4<<20, true
	r := s.start(waitForZeros(b), c)
	eventually(t, "all the others are handled", func() bool { return b.len() == handled })
	eventually(t, "the other partition is committed", func() bool { return s.committed(1) == 1000 })
	if at := s.committed(0); at > 0 {
		t.Errorf("partition 0 is committed to %d", at)
	}
	r.end()
}

// waitForZeros handles all but zeros, which are to come again much later.
func waitForZeros(b *book) consumer.HandlerFunc {
	return func(ctx context.Context, m *consumer.Message) error {
		if isZeros(m) {
			return consumer.RetryAfter(errors.New("not yet"), time.Hour)
		}
		return b.handle(ctx, m)
	}
}

// Two large records that wait take all the room that the user gives. Then nothing is polled, and Health says why.
func TestLargeRecordsTakeAllTheRoom(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 3)
	s.ledger = limited(16 << 20)
	s.sendZeros(0, 5<<20)
	s.sendZeros(1, 5<<20)
	c := quick()
	c.MaxHeldBytes, c.NoParking = 4<<20, true
	r := s.start(waitForZeros(newBook()), c)
	eventually(t, "Health says so", func() bool {
		warnings := strings.Join(r.Health().Warnings, "")
		return strings.Contains(warnings, "2 messages in hand") && strings.Contains(warnings, "nothing is polled")
	})
	eventually(t, "the partitions do not leave room to others", func() bool {
		stalls := r.Health().Stalled
		return len(stalls) > 0 && !slices.ContainsFunc(stalls, func(st consumer.Stall) bool {
			return st.Reason != consumer.StallRoom || !strings.Contains(st.Why, "takes all the room")
		})
	})
	r.end()
}

// People whose ledger must hold whatever failed have Run end, by name, before such a record is handled.
func TestOversizeEndsRun(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1).with(audit)
		s.ledger = limited(4 << 20)
		s.send(0, numbers("before ", 10)...)
		s.sendZeros(0, 5<<20)
		s.send(0, "behind")
		b, c := newBook(), quick()
		c.Oversize = OversizeEnd
		err := s.worker(b.handle, c).Run(t.Context())
		for _, want := range []string{fmt.Sprintf("topic %q partition 0 offset 10", s.topic), "5242885 bytes", "4194304"} {
			if !errors.Is(err, ErrOversize) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		if b.runs["behind"] > 0 || s.committed(0) > 10 {
			t.Errorf("runs %v, committed %d", b.runs, s.committed(0))
		}
	})
}

// zerosHeap is what a record of 65 MiB that is archived without its body takes at most, in records: the client's batch, the
// handler's copy, and as much again that the collector has not come to yet.
const zerosHeap = 8

// The memory that one large record costs is bounded, however often it is tried.
func TestLargeRecordsMemory(t *testing.T) {
	const size = 65 << 20
	s := fakeSite(t, 1)
	var runs atomic.Int64
	s.sendZeros(0, size)
	s.send(0, numbers("behind ", 100)...)
	runtime.GC()
	highest := heapDuring(t, func() {
		b, c := newBook(), quick()
		c.Attempts = 20
		r := s.start(func(ctx context.Context, m *consumer.Message) error {
			if isZeros(m) {
				runs.Add(1)
				return errors.New("too large for me")
			}
			return b.handle(ctx, m)
		}, c)
		s.caughtUp()
		r.end()
	})
	if runs.Load() != 20 || highest > zerosHeap*size {
		t.Errorf("%d runs, the heap grew by %d MiB, want at most %d MiB", runs.Load(), highest>>20, zerosHeap*size>>20)
	}
	t.Logf("the heap grew by %d MiB at most", highest>>20)
}
