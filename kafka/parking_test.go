package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ackledger/ackledger/consumer"
)

// A record that is put off for long is parked: its partition is committed past it, and when it is due it comes whole, as it came from the log.
func TestRetryIsParked(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 2).with(audit)
		keys := [][]byte{nil, {}, []byte("key \xff")}
		for i, key := range keys {
			s.sendRecords(&kgo.Record{Topic: s.topic, Partition: 1, Key: key, Value: []byte{byte(i)},
				Headers: []kgo.RecordHeader{{Key: "h", Value: nil}, {Key: "h", Value: []byte("2")}}})
		}
		s.send(0, numbers("other ", 10)...)
		c := quick()
		c.Order, c.ParkAfter = OrderNone, time.Second
		var mu sync.Mutex
		first, second := map[string]consumer.Message{}, map[string]consumer.Message{}
		r := s.start(func(_ context.Context, m *consumer.Message) error {
			if m.Partition == 0 {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if m.Attempt == 1 {
				first[m.ID] = m.Clone()
				return consumer.RetryAfter(errors.New("not yet"), 6*time.Second)
			}
			second[m.ID] = m.Clone()
			return nil
		}, c)
		eventually(t, "the partition is committed past what is put off", func() bool { return s.committed(1) == int64(len(keys)) })
		mu.Lock()
		if len(second) > 0 {
			t.Error("it has run again before it was committed")
		}
		mu.Unlock()
		eventually(t, "all have run again", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(second) == len(keys)
		})
		r.end()
		for id, was := range first {
			is := second[id]
			if is.Attempt != 2 || !bytes.Equal(is.Key, was.Key) || (is.Key == nil) != (was.Key == nil) {
				t.Errorf("%s: attempt %d, key %q, was %q", id, is.Attempt, is.Key, was.Key)
			}
			if is.Attempt, is.SentAt, was.SentAt = was.Attempt, is.SentAt.UTC(), was.SentAt.UTC(); !reflect.DeepEqual(is, was) {
				t.Errorf("%+v\nwas\n%+v", is, was)
			}
		}
	})
}

// A key of which a record is parked keeps its order, through rebalances and members that come and go; other keys go on, and partitions are
// committed past what is parked.
func TestKeyIsParked(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		const keys, each = 6, 12
		s := fakeSite(t, 2).with(audit)
		var records []*kgo.Record
		for i := range each {
			for key := range keys {
				records = append(records, &kgo.Record{Topic: s.topic, Partition: int32(key % 2), Key: fmt.Append(nil, "key ", key), Value: fmt.Append(nil, i)})
			}
		}
		s.sendRecords(records...)
		c := quick()
		c.ParkAfter = time.Second
		var mu sync.Mutex
		order, done := map[string][]string{}, 0
		handle := func(_ context.Context, m *consumer.Message) error {
			if late := string(m.Key) == "key 0" || string(m.Key) == "key 3"; late && string(m.Body) == "2" && m.Attempt == 1 {
				return consumer.RetryAfter(errors.New("not yet"), 6*time.Second)
			}
			mu.Lock()
			defer mu.Unlock()
			order[string(m.Key)] = append(order[string(m.Key)], string(m.Body))
			done++
			return nil
		}
		r := s.start(handle, c)
		eventually(t, "both partitions are committed past what is parked", func() bool { return s.committed(0) == keys/2*each && s.committed(1) == keys/2*each })
		mu.Lock()
		if done != (keys-2)*each+4 {
			t.Errorf("%d are done, want all of %d keys and 2 of each other", done, keys-2)
		}
		mu.Unlock()
		r.end()
		s.sendRecords(&kgo.Record{Topic: s.topic, Partition: 0, Key: []byte("key 0"), Value: fmt.Append(nil, each)},
			&kgo.Record{Topic: s.topic, Partition: 1, Key: []byte("key 1"), Value: fmt.Append(nil, each)})
		one, two := s.start(handle, c), s.start(handle, c)
		eventually(t, "all are done", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return done >= keys*each+2
		})
		one.end()
		two.end()
		for key, list := range order {
			for i, body := range list {
				if body != fmt.Sprint(i) {
					t.Errorf("%s: %q", key, list)
					break
				}
			}
		}
	})
}

// TestPitfall262_SpanHeldByShortRetries: a record that was put off for less than a minute held its partition at the span's limit. Where the
// span is half used up it is parked, and the partition goes on.
func TestPitfall262_SpanHeldByShortRetries(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		const records = 60
		s := fakeSite(t, 1).with(audit)
		s.send(0, numbers("v", records)...)
		c := quick()
		c.Order, c.Span = OrderNone, records/3
		var mu sync.Mutex
		tries, done := 0, 0
		r := s.start(func(_ context.Context, m *consumer.Message) error {
			mu.Lock()
			defer mu.Unlock()
			if m.Offset > 0 {
				done++
				return nil
			}
			if tries = m.Attempt; tries == 1 {
				return consumer.RetryAfter(errors.New("not yet"), 20*time.Second)
			}
			return nil
		}, c)
		eventually(t, "all of the partition but the first is done", func() bool { return s.committed(0) == records })
		mu.Lock()
		if tries != 1 || done != records-1 {
			t.Errorf("after %d tries of the first %d others are done, want all while it waits", tries, done)
		}
		mu.Unlock()
		eventually(t, "the first has succeeded", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return tries == 2
		})
		r.end()
	})
}
