package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// whole says that the ledger holds a partition's offsets up to end, at least, in one piece, and no row.
func (s *site) whole(r *running, partition, epoch int32, end int64) {
	s.t.Helper()
	if n := s.ledger.Len(); n != 0 {
		s.t.Errorf("%d rows", n)
	}
	s.inOne(r, partition, epoch, end)
}

// inOne expects one segment from the beginning of a partition to its end.
func (s *site) inOne(r *running, partition, epoch int32, end int64) {
	s.t.Helper()
	rec, err := s.ledger.Get(s.t.Context(), s.key(r, partition, epoch, end/2))
	if err != nil {
		s.t.Fatal(err)
	}
	if rec.State != ledger.Succeeded || rec.In == nil || rec.In.From != 0 || rec.In.To < end {
		s.t.Errorf("offset %d: %s in %+v, want succeeded in 0 to %d", end/2, rec.State, rec.In, end)
	}
}

// A partition goes to another member in the middle of a range: what is finished stays so, the rest runs there, once.
func TestRebalanceInTheMiddleOfARange(t *testing.T) { onBoth(t, 2, rebalanceInARange) }

func rebalanceInARange(s *site) {
	t := s.t
	const n = 1000
	values := append(numbers("p0-", n), numbers("p1-", n)...)
	s.send(0, values[:n]...)
	s.send(1, values[n:]...)
	slow, b := newGate(t), newBook()
	c := revokeIn(50 * time.Millisecond)
	c.Order = OrderNone
	first := s.start(func(ctx context.Context, m *consumer.Message) error {
		if m.Offset%2 == 1 && m.Offset > 100 {
			select {
			case <-slow.open:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return b.handle(ctx, m)
	}, c)
	eventually(t, "the first is in the middle", func() bool { return b.len() > 60 })
	second := s.start(b.handle, nil)
	second.owns(1)
	slow.release()
	eventually(t, "all are handled", func() bool { return b.len() == 2*n })
	s.caughtUp()
	first.end()
	second.end()
	b.once(t, values)
}

// A gap of 100,000 offsets lies in the middle of the log. What is on both sides is one piece in the ledger.
func TestGapOf100000(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) { gapOf100k(fakeSite(t, 1).with(audit)) })
}

func gapOf100k(s *site) {
	t := s.t
	const gap = 100_000
	s.send(0, numbers("before-", 50)...)
	tx, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.TransactionalID(newName()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	if err := tx.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	aborted := make([]*kgo.Record, gap)
	for i := range aborted {
		aborted[i] = &kgo.Record{Topic: s.topic, Value: []byte("aborted")}
	}
	if err := tx.ProduceSync(t.Context(), aborted...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := tx.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	s.ended(50 + gap + 1)
	s.send(0, numbers("after-", 50)...)
	b := newBook()
	r := s.start(b.handle, nil)
	s.caughtUp()
	r.end()
	b.once(t, append(numbers("before-", 50), numbers("after-", 50)...))
	if s.audit == AuditRanges {
		s.whole(r, 0, 0, gap+100)
	}
}

// Records finish out of order over several ranges, and one of the first is not finished when the worker ends. It alone is
// handled by the next.
func TestRangesFinishOutOfOrder(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 1)
	values := numbers("v", 1000)
	s.send(0, values...)
	b := newBook()
	c := quick()
	c.Order, c.ClaimAhead, c.Drain = OrderNone, 100, 100*time.Millisecond
	r := s.start(func(ctx context.Context, m *consumer.Message) error {
		if m.Offset == 3 {
			<-ctx.Done()
			return ctx.Err()
		}
		return b.handle(ctx, m)
	}, c)
	eventually(t, "all but one are handled", func() bool { return b.len() == len(values)-1 })
	r.stop()
	_ = r.wait() // it names the record that was cut off
	again := s.start(b.handle, nil)
	s.caughtUp()
	again.end()
	b.once(t, values)
	if n := s.ledger.Len(); n > 1 { // the one that was cut off has a row, if the shutdown was over before it was given back
		t.Errorf("%d rows", n)
	}
	s.inOne(again, 0, 0, int64(len(values)))
}

// The group's offset is set back, forward, and back again. What was handled is not handled again, what was skipped is
// found.
func TestResetOffsets(t *testing.T) { onBoth(t, 1, resetOffsets) }

func resetOffsets(s *site) {
	t := s.t
	b := newBook()
	values := numbers("v", 200)
	began := time.Now().Add(-time.Hour).Truncate(time.Second)
	at := func(i int) time.Time { return began.Add(time.Duration(i) * time.Second) } // when the record was made
	s.sendAt(at, 0, values[:100]...)
	run := func(from int64, handled int) {
		t.Helper()
		s.commitAs(0, from, "")
		r := s.start(b.handle, nil)
		eventually(t, fmt.Sprintf("%d are handled after a reset to %d", handled, from), func() bool { return b.len() == handled })
		s.caughtUp()
		r.end()
	}
	run(70, 30) // a group that begins late
	run(0, 100) // the beginning: before all that is known
	run(0, 100) // again
	run(100, 100)
	s.sendAt(at, 100, values[100:]...)
	run(200, 100)                                             // the end: 100 records are skipped
	run(s.offsetOf(at(150).Add(-time.Millisecond), 150), 150) // a time in between
	run(s.offsetOf(at(50).Add(time.Millisecond), 51), 200)    // one before all that was skipped
	run(0, 200)
	b.once(t, values)
}

// sendAt produces records to the first partition that say themselves when they were made; the first is the from-th.
func (s *site) sendAt(at func(int) time.Time, from int, values ...string) {
	s.t.Helper()
	records := make([]*kgo.Record, len(values))
	for i, v := range values {
		records[i] = &kgo.Record{Topic: s.topic, Key: []byte(v), Value: []byte(v), Timestamp: at(from + i)}
	}
	s.sendRecords(records...)
}

// offsetOf looks up where a time begins in the first partition, as a reset to a time does, and says if that is not there.
func (s *site) offsetOf(at time.Time, want int64) int64 {
	s.t.Helper()
	list, err := s.adm.ListOffsetsAfterMilli(s.t.Context(), at.UnixMilli(), s.topic)
	if err != nil {
		s.t.Fatal(err)
	}
	o, ok := list.Lookup(s.topic, 0)
	if !ok || o.Err != nil {
		s.t.Fatalf("the offset of %s: %+v", at, o)
	}
	if o.Offset != want {
		s.t.Errorf("the log has %s from offset %d on, want %d", at, o.Offset, want)
	}
	return o.Offset
}

// The leader changes, again and again, and with it the epoch of the records: nothing is lost, and nothing runs twice when
// the group begins anew.
func TestNewLeaderEpochs(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1, kfake.NumBrokers(2)).with(audit)
		b := newBook()
		r := s.start(b.handle, nil)
		r.owns(1)
		var values []string
		for i := range 6 {
			more := numbers(fmt.Sprintf("%d-", i), 50)
			values = append(values, more...)
			s.send(0, more...)
			if i%2 == 0 {
				eventually(t, "what there is is handled", func() bool { return b.len() == len(values) })
			}
			if err := s.fake.MoveTopicPartition(s.topic, 0, int32(i%2)); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "all are handled", func() bool { return b.len() == len(values) })
		s.caughtUp()
		r.end()
		s.commitAs(0, 0, "")
		again := s.start(b.handle, nil)
		s.caughtUp()
		again.end()
		b.once(t, values)
	})
}

// A log is cut off in the middle of a range and written anew under a higher epoch: the new records are other messages,
// and what runs of the old ones harms none.
func TestTruncationInTheMiddleOfARange(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 1).with(audit)
		b, slow := newBook(), newGate(t)
		c := quick()
		c.Reset, c.Order = ResetEarliest, OrderNone
		r := s.start(func(ctx context.Context, m *consumer.Message) error {
			if string(m.Body) == "old-7" {
				<-slow.open
			}
			return b.handle(ctx, m)
		}, c)
		r.owns(1)
		inject := func(prefix string, from int64, epoch int32) (values []string) { // as a poll takes it in: the topic itself is empty
			p := kgo.FetchPartition{}
			for i := range int64(10) {
				v := fmt.Sprintf("%s%d", prefix, from+i)
				values = append(values, v)
				p.Records = append(p.Records, &kgo.Record{Topic: s.topic, Offset: from + i, LeaderEpoch: epoch, Value: []byte(v)})
			}
			r.take(kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: s.topic, TopicID: s.id(), Partitions: []kgo.FetchPartition{p}}}}}, &meanSize{})
			return values
		}
		values := inject("old-", 0, 1)
		eventually(t, "all but one are handled", func() bool { return b.len() == 9 })
		values = append(values, inject("new-", 5, 2)...)
		eventually(t, "the new ones are handled", func() bool { return b.len() == 19 })
		if a := r.table.get(place{Topic: s.topic, Partition: 0}); a.Start != 5 || a.Epoch != 1 {
			t.Errorf("it begins at %d behind epoch %d: the next loss goes unnoticed", a.Start, a.Epoch)
		}
		slow.release()
		eventually(t, "and the old one", func() bool { return b.len() == 20 })
		r.end()
		b.once(t, values)
	})
}

// Workers with ranges and with rows take turns in a group, and share it, while records come and some fail at first:
// nothing is lost and nothing succeeds twice, not even when the group begins anew under either.
func TestSwitchAuditOnALiveGroup(t *testing.T) { onBothProtocols(t, 4, switchAudit) }

func switchAudit(s *site) {
	t := s.t
	var mu sync.Mutex
	failed := map[string]bool{}
	b := newBook()
	handler := func(ctx context.Context, m *consumer.Message) error {
		mu.Lock()
		again := failed[m.ID]
		failed[m.ID] = true
		mu.Unlock()
		if m.Offset%11 == 0 && !again {
			return errors.New("at first")
		}
		return b.handle(ctx, m)
	}
	start := func(audit Audit) *running {
		c := revokeIn(100 * time.Millisecond)
		c.Drain = time.Second
		return s.with(audit).start(handler, c)
	}
	var values []string
	produce := func(round int) {
		for p := range int32(4) {
			more := numbers(fmt.Sprintf("%d-%d-", round, p), 150)
			values = append(values, more...)
			s.send(p, more...)
		}
	}
	produce(0)
	now := start(AuditRanges)
	for round, audit := range []Audit{AuditRows, AuditRanges, AuditRows, AuditRanges} {
		next := start(audit) // both share the group for a while
		produce(round + 1)
		next.owns(2)
		now.end()
		now = next
	}
	eventually(t, "all are handled", func() bool { return b.len() == len(values) })
	s.caughtUp()
	now.end()
	for _, audit := range []Audit{AuditRanges, AuditRows} {
		for p := range int32(4) {
			s.commitAs(p, 0, "")
		}
		again := start(audit)
		s.caughtUp()
		again.end()
	}
	b.once(t, values)
}

// From 1 to 200 partitions.
func TestManyPartitions(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int32{1, 20, 200} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			s := fakeSite(t, partitions)
			var values []string
			var records []*kgo.Record
			for i := range 4000 {
				v := fmt.Sprint(i)
				values = append(values, v)
				records = append(records, &kgo.Record{Topic: s.topic, Partition: int32(i) % partitions, Value: []byte(v)})
			}
			s.sendRecords(records...)
			b := newBook()
			c := quick()
			c.Lease = 30 * time.Second // a lease that is lost leaves rows, and a busy machine loses one of 2 s
			r := s.start(b.handle, c)
			eventually(t, "all are handled", func() bool { return b.len() == len(values) })
			s.caughtUp()
			r.end()
			b.once(t, values)
			for p := range partitions {
				s.whole(r, p, 0, int64(4000/partitions))
			}
		})
	}
}
