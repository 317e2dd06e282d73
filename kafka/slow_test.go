package kafka

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

// Handlers that are slow, and a backlog that does not end: the worker holds what MaxHeldBytes allows, and its goroutines
// are as many as its handlers and its loops need, not as many as it holds messages. What it holds does not grow with what
// has gone through.
func TestSlowHandlersAreBounded(t *testing.T) { // not in parallel with others: it reads the process's heap
	const (
		partitions = 4
		records    = 24_000
		size       = 1 << 10
		held       = 2 << 20 // of bodies
		rounds     = 3
		a, most    = 1000, 40
		heap       = 16 << 20 // held, its records' overhead, and what the client has fetched
	)
	for name, audit := range audits {
		t.Run(name, func(t *testing.T) {
			s := fakeSite(t, partitions).with(audit)
			for from := 0; from < records; from += 2000 {
				batch := make([]*kgo.Record, 2000)
				for i := range batch {
					value := make([]byte, size) // of chance: what is compressed is bounded by the fetch's size on the wire
					_, _ = rand.Read(value)
					batch[i] = &kgo.Record{Topic: s.topic, Partition: int32(i % partitions), Value: value}
				}
				s.sendRecords(batch...)
			}
			c := quick()
			c.Order, c.Concurrency, c.MaxHeldBytes, c.Logger = OrderNone, 4, held, zap.NewNop()
			turns := make(chan struct{})
			var begun atomic.Int64
			before := heapInUse()
			var r *running
			pprof.Do(t.Context(), pprof.Labels("worker", s.group), func(context.Context) {
				r = s.start(func(ctx context.Context, _ *consumer.Message) error {
					begun.Add(1)
					select {
					case <-turns:
						return nil
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				}, c, kgo.FetchMaxBytes(1<<20), kgo.FetchMaxPartitionBytes(256<<10))
			})
			r.ready()
			for round := range rounds {
				want := int64(round*a + c.Concurrency)
				eventually(t, "the handlers stand still, and polling has stopped", func() bool {
					_, room := r.eng.Room()
					return begun.Load() == want && room <= held/4
				})
				if _, room := r.eng.Room(); room < -1<<20 {
					t.Errorf("round %d: %d bytes more than the limit are held", round, -room)
				}
				if n := goroutinesOf(s.group); n < c.Concurrency || n > most {
					t.Errorf("round %d: %d goroutines, want %d to %d", round, n, c.Concurrency, most)
				}
				if grew := heapInUse() - before; grew > heap {
					t.Errorf("round %d: the heap grew by %d KiB, want at most %d", round, grew>>10, heap>>10)
				}
				for range a {
					turns <- struct{}{}
				}
			}
			r.stop()
			close(turns)
			r.end()
		})
	}
}

// One record is held while many behind it could finish, a million with ACKLEDGER_LONG=1: the partition pauses at the span's
// limit and is reported; memory is bounded, and the other partition goes on.
func TestPitfall99_SpanLimit(t *testing.T) { // not in parallel with others: it reads the process's heap
	for name, audit := range audits {
		t.Run(name, func(t *testing.T) { spanLimit(t, audit) })
	}
}

func spanLimit(t *testing.T, audit Audit) {
	s := fakeSite(t, 2).with(audit)
	values, limit := numbers("v", 3000), 200
	if os.Getenv("ACKLEDGER_LONG") != "" {
		values, limit = numbers("v", 1_000_000), 100_000
	}
	for part := range slices.Chunk(values, 10_000) {
		s.send(0, part...)
	}
	s.send(1, "other")
	before := heapInUse()
	g, b := newGate(t), newBook()
	c := quick()
	c.Order, c.Span = OrderNone, limit
	r := s.start(func(ctx context.Context, m *consumer.Message) error {
		if string(m.Body) == "v0" {
			<-g.open
		}
		return b.handle(ctx, m)
	}, c)
	eventually(t, "the partition is reported", func() bool {
		stalls := r.Health().Stalled
		return len(stalls) == 1 && stalls[0].Why == "span limit" && stalls[0].Reason == consumer.StallSpan && stalls[0].What == recordID(s.topic, 0, 0)
	})
	eventually(t, "what was delivered is handled", func() bool {
		r.table.mu.Lock()
		defer r.table.mu.Unlock()
		n, _ := r.table.core.Get(place{Topic: s.topic, Partition: 0}).Held()
		return n == 1
	})
	r.table.mu.Lock()
	span := r.table.core.Get(place{Topic: s.topic, Partition: 0}).Span()
	r.table.mu.Unlock()
	if span < c.Span || span > 2*c.Span {
		t.Errorf("span %d with a limit of %d", span, c.Span)
	}
	if grown, most := heapInUse()-before, int64(64<<20+limit<<10); grown > most { // with the ledger's rows, which are in memory
		t.Errorf("the heap has grown by %d bytes, at most %d are allowed, with %d records behind the one that is held", grown, most, len(values))
	}
	s.send(1, "another")
	eventually(t, "the other partition goes on", func() bool { return s.committed(1) == 2 })
	g.release()
	if len(values) > 3000 { // the rest of a million takes minutes
		r.end()
		return
	}
	s.caughtUp()
	r.end()
	b.once(t, append(values, "other", "another"))
}

// heapInUse is what the process's heap holds.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // what the first one's finalizers let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// goroutinesOf counts the goroutines that carry the label, as all do that were begun under it.
func goroutinesOf(worker string) int {
	var text strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		panic(err)
	}
	total, n := 0, 0
	for line := range strings.Lines(text.String()) {
		if count, _, ok := strings.Cut(line, " @ "); ok {
			n, _ = strconv.Atoi(count)
		} else if strings.HasPrefix(line, "# labels: ") && strings.Contains(line, fmt.Sprintf("%q", worker)) {
			total += n
		}
	}
	return total
}
