package kafka

import (
	"bytes"
	"context"
	"errors"
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
