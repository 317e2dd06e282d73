package kafka

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/twmb/franz-go/pkg/kgo"
)

// startBatch runs a worker with a batch handler.
func (s *site) startBatch(size int, h func(context.Context, []*consumer.Message) []error, c *Config) *running {
	s.t.Helper()
	c.Audit = s.audit
	w, err := NewWorker(append([]kgo.Opt{
		kgo.SeedBrokers(s.brokers...), kgo.ConsumerGroup(s.group), kgo.ConsumeTopics(s.topic),
		kgo.FetchMaxWait(100 * time.Millisecond), kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.HeartbeatInterval(200 * time.Millisecond),
	}, s.opts...), s.ledger, consumer.Batch(size, h), c)
	if err != nil {
		s.t.Fatal(err)
	}
	return runWorker(s.t, w)
}

// One record of many breaks every batch that it is in: it alone is archived, all others are handled, and the group's
// offsets reach the end. By partition and by key a batch has at most one record of each.
func TestBatchWithPoison(t *testing.T) {
	for name, order := range map[string]Order{"unordered": OrderNone, "by key": OrderKey, "by partition": OrderPartition} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fakeSite(t, 4)
			var values []string
			for p := range int32(4) {
				of := numbers(string(rune('a'+p)), 60)
				s.send(p, of...)
				values = append(values, of...)
			}
			var mu sync.Mutex
			done, poisoned, largest := map[string]int{}, 0, 0
			c := quick()
			c.Order, c.Attempts, c.Concurrency = order, 3, 2
			w := s.startBatch(50, func(_ context.Context, batch []*consumer.Message) []error {
				mu.Lock()
				defer mu.Unlock()
				largest = max(largest, len(batch))
				partitions := map[int32]bool{}
				for _, m := range batch {
					if order == OrderPartition && partitions[m.Partition] {
						t.Errorf("two records of partition %d in one batch", m.Partition)
					}
					partitions[m.Partition] = true
					if string(m.Body) == "b7" {
						if len(batch) == 1 {
							poisoned++
						}
						panic("poison")
					}
				}
				for _, m := range batch {
					done[string(m.Body)]++
				}
				return nil
			}, c)
			s.caughtUp()
			w.end()
			for _, v := range values {
				if v != "b7" && done[v] != 1 {
					t.Errorf("record %s was handled %d times", v, done[v])
				}
			}
			if poisoned != 3 || done["b7"] != 0 || largest < 2 {
				t.Errorf("poison ran alone %d times, the largest batch had %d", poisoned, largest)
			}
		})
	}
}

// The worker ends after a batch's transaction has committed and before anything is committed to the group: the records
// come again, are recognised, and their effects are there once.
func TestBatchIsRecognisedAfterItsWorkerEnded(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 2)
	var mu sync.Mutex
	effects := map[string]int{}
	handle := func(hang <-chan struct{}) func(context.Context, []*consumer.Message) []error {
		return func(ctx context.Context, batch []*consumer.Message) []error {
			err := memory.InTx(ctx, func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				for _, m := range batch {
					effects[string(m.Body)]++
				}
				return nil
			})
			<-hang
			errs := make([]error, len(batch))
			for i := range errs {
				errs[i] = err
			}
			return errs
		}
	}
	values := numbers("v", 80)
	s.send(0, values[:40]...)
	s.send(1, values[40:]...)
	hang := make(chan struct{})
	defer close(hang)
	c := quick()
	c.Order, c.Drain, c.Concurrency = OrderNone, 100*time.Millisecond, 16
	first := s.startBatch(10, handle(hang), c)
	eventually(t, "all are committed", func() bool { mu.Lock(); defer mu.Unlock(); return len(effects) == len(values) })
	first.stop()
	if err := first.wait(); err == nil {
		t.Error("the worker ended well, although its handlers hang")
	}
	over := make(chan struct{})
	close(over)
	second := s.startBatch(10, handle(over), quick())
	s.caughtUp()
	second.end()
	for _, v := range values {
		if effects[v] != 1 {
			t.Errorf("the effect of %s happened %d times", v, effects[v])
		}
	}
}
