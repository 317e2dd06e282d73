package kafka

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/twmb/franz-go/pkg/kgo"
)

// feed makes polls as a client does: up to pollMax records, of one partition after the other.
type feed struct {
	records [8][]*kgo.Record
	next    [8]int64
	turn    int
}

// feedRing is how many records of a partition there are before one is used again: more than are in hand.
const feedRing = 4 * pollMax

const feedFetch = 5000 // records of 200 B in what a partition is asked for at once (1 MiB)

func newFeed() *feed {
	f := &feed{}
	for p := range f.records {
		f.records[p] = make([]*kgo.Record, feedRing)
		for i := range f.records[p] {
			f.records[p][i] = &kgo.Record{Topic: "orders", Partition: int32(p), Timestamp: time.Now(), LeaderEpoch: 1,
				Key: fmt.Appendf(nil, "key-%d-%d", p, i*7%1250), Value: make([]byte, 200)}
		}
	}
	return f
}

func (f *feed) poll(n int) kgo.Fetches {
	p := f.turn
	left := int(feedFetch - f.next[p]%feedFetch)
	at := int(f.next[p] % feedRing)
	n = min(n, left, pollMax, feedRing-at)
	some := f.records[p][at : at+n : at+n]
	for _, r := range some {
		r.Offset = f.next[p]
		f.next[p]++
	}
	if n == left {
		f.turn = (f.turn + 1) % len(f.records)
	}
	return kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: "orders", Partitions: []kgo.FetchPartition{{Partition: int32(p), Records: some}}}}}}
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The worker's own way of a record, from the poll to the offset that may be committed: real table, engine and memory
// ledger, no broker, a handler that does nothing. One iteration is one record; cpu-ns/op is the processor's time of all
// goroutines, whatever else the machine does.
func BenchmarkPath(b *testing.B) {
	for _, c := range []struct {
		name  string
		order Order
		audit Audit
	}{{"ranges, order none", OrderNone, AuditRanges}, {"ranges, order by key", OrderKey, AuditRanges},
		{"ranges, order by partition", OrderPartition, AuditRanges}, {"rows, order by key", OrderKey, AuditRows}} {
		b.Run(c.name, func(b *testing.B) {
			benchPath(b, &Config{Order: c.order, Audit: c.audit, Options: consumer.Options{Window: time.Hour}})
		})
	}
}

func benchPath(b *testing.B, c *Config) {
	var handled atomic.Int64
	l := memory.New()
	w, err := NewWorker(good(), l, consumer.HandlerFunc(func(context.Context, *consumer.Message) error { handled.Add(1); return nil }), c)
	if err != nil {
		b.Fatal(err)
	}
	if w.kgo, err = kgo.NewClient(); err != nil { // pauses are all that it is asked for
		b.Fatal(err)
	}
	defer w.kgo.Close()
	source, err := newTopicSource("group", "cluster", "orders")
	if err != nil {
		b.Fatal(err)
	}
	source.window, w.set.Window, w.set.Keep = time.Hour, time.Hour, time.Hour
	for p := range int32(8) {
		id := topicID{1}
		a := newAssignment(place{Topic: "orders", Partition: p}, id, LogName("cluster", "orders", id, p))
		a.source = source
		w.table.install(a)
	}
	eng, err := engine.New(engine.Config{Options: w.set.Options, Ledger: l, Handler: w.handler, Sink: w, System: "kafka", Source: "orders", Group: "group"})
	if err == nil {
		w.eng = eng
		err = eng.Start(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	f := newFeed()
	var size meanSize
	var before, after runtime.MemStats
	warm := 50_000
	b.ReportAllocs()
	var began time.Duration
	for sent := 0; sent < warm+b.N; {
		changed := eng.Changed()
		room, bytes := eng.Room()
		if room <= 0 || bytes <= 0 {
			<-changed
			continue
		}
		if sent >= warm && began == 0 {
			runtime.ReadMemStats(&before)
			b.ResetTimer()
			began = cpu()
		}
		n := min(size.fit(min((room+1)/2, w.set.Span), bytes/2), warm+b.N-sent)
		fetches := f.poll(n)
		w.take(fetches, &size)
		sent += fetches.NumRecords()
	}
	for handled.Load() < int64(warm+b.N) || eng.Load().Held > 0 {
		time.Sleep(100 * time.Microsecond)
	}
	b.StopTimer()
	spent := cpu() - began
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N), "alloc-B/op")
	done := int64(0)
	for _, p := range w.table.due() {
		done += p.offset
	}
	if done != int64(warm+b.N) {
		b.Errorf("%d of %d records may be committed", done, warm+b.N)
	}
	if err := eng.Drain(context.Background()); err != nil {
		b.Error(err)
	}
	if err := eng.Close(context.Background()); err != nil {
		b.Error(err)
	}
}
