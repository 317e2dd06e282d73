package kafka

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
)

// A partition waits for its first record, and has a longer backlog than the worker may hold: it does not fill the
// worker's hands, the other partitions go on.
func TestPitfall58_HeldPartitionLeavesRoom(t *testing.T) {
	inBoth(t, func(t *testing.T, audit Audit) {
		s := fakeSite(t, 4).with(audit)
		s.send(0, append([]string{"bad"}, numbers("behind ", 500)...)...)
		s.send(2, append([]string{"bad"}, numbers("also behind ", 500)...)...)
		var others []string
		for p, name := range map[int32]string{1: "other ", 3: "fourth "} {
			list := numbers(name, 500)
			s.send(p, list...)
			others = append(others, list...)
		}
		b := newBook()
		c := quick()
		c.Order, c.MaxHeld = OrderPartition, 100
		r := s.start(func(ctx context.Context, m *consumer.Message) error {
			if string(m.Body) == "bad" {
				return consumer.RetryAfter(errors.New("not yet"), time.Hour)
			}
			return b.handle(ctx, m)
		}, c)
		eventually(t, "the other partitions are handled", func() bool { return b.len() == len(others) })
		eventually(t, "it is reported", func() bool {
			stalls := r.table.stalls()
			return len(stalls) > 0 && stalls[0].Reason == consumer.StallRoom
		})
		eventually(t, "they are committed", func() bool { return s.committed(1) == 500 && s.committed(3) == 500 })
		for _, v := range b.list {
			if strings.Contains(v, "behind") {
				t.Fatal("a record ran before the one of its partition that failed")
			}
		}
		r.end()
	})
}

// What is in hand comes back in the end: a partition that was stuck is read again.
func TestStuckPartitionIsReadAgain(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 2)
	s.send(0, append([]string{"bad"}, numbers("behind ", 300)...)...)
	s.send(1, numbers("other ", 300)...)
	b := newBook()
	var heal atomic.Bool
	c := quick()
	c.Order, c.MaxHeld = OrderPartition, 100
	r := s.start(func(ctx context.Context, m *consumer.Message) error {
		if string(m.Body) == "bad" && !heal.Load() {
			return consumer.RetryAfter(errors.New("not yet"), 3*time.Second)
		}
		return b.handle(ctx, m)
	}, c)
	eventually(t, "the other partition is handled", func() bool { return b.len() == 300 })
	eventually(t, "the first one pauses", func() bool { return r.table.full(place{Topic: s.topic, Partition: 0}) })
	heal.Store(true)
	s.caughtUp()
	if stalls := r.table.stalls(); len(stalls) != 0 {
		t.Errorf("still stalled: %v", stalls)
	}
	r.end()
	b.once(t, append(append([]string{"bad"}, numbers("behind ", 300)...), numbers("other ", 300)...))
}
