package kafka

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

// random are bytes that no codec packs: what the client has fetched is bounded as it is packed.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

// heavy are records whose weight is somewhere else each. All but the tiny ones come to several times the limit.
var heavy = map[string]struct {
	records int
	make    func() *kgo.Record
}{
	"bodies":        {200, func() *kgo.Record { return &kgo.Record{Value: random(100 << 10)} }},
	"keys":          {200, func() *kgo.Record { return &kgo.Record{Key: random(100 << 10)} }},
	"large headers": {60, func() *kgo.Record { return headed(1, 300<<10) }},
	"small headers": {300, func() *kgo.Record { return headed(200, 4) }},
	"tiny":          {8000, func() *kgo.Record { return &kgo.Record{Value: []byte("1")} }},
}

func headed(n, size int) *kgo.Record {
	r := &kgo.Record{Value: []byte("1")}
	for i := range n {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: fmt.Sprint("header ", i), Value: random(size)})
	}
	return r
}

const (
	heldLimit   = 4 << 20
	heldMost    = heldLimit + heldLimit/2
	clientsOwn  = 5 << 20 // what the client has fetched, and what is not of records
	quickBefore = 3000    // records that make the engine take what follows as stretches
)

// MaxHeldBytes counted bodies alone: records with large headers or keys, and many that were tiny, took forty times as much; and
// one that waited kept seven others in memory that were done. What is counted is memory, within half of it, in each way in which
// records may be in hand.
func TestPitfall125_HeldBytesAreMemory(t *testing.T) { // not in parallel with others: it reads the process's heap
	for _, name := range slices.Sorted(maps.Keys(heavy)) {
		ways := []string{"rows, one by one", "ranges, stretches"}
		switch name {
		case "bodies":
			ways = append(ways, "rows, by key", "rows, batches", "rows, most are done", "ranges, by key", "ranges, batches", "ranges, most are done")
		case "tiny":
			ways = append(ways, "ranges, most are done") // with rows, most of the heap is the ledger
		}
		for _, way := range ways {
			t.Run(name+", "+way, func(t *testing.T) {
				audit, way, _ := strings.Cut(way, ", ")
				heldBytes(t, name, audit, way)
			})
		}
	}
}

func heldBytes(t *testing.T, name, audit, way string) {
	s := fakeSite(t, 1).with(audits[audit])
	before, h := 0, heavy[name]
	if way == "stretches" {
		before = quickBefore
		s.send(0, numbers("quick ", before)...)
	}
	for from := 0; from < h.records; from += 10 {
		batch := make([]*kgo.Record, 10)
		for i := range batch {
			batch[i] = h.make()
			batch[i].Topic = s.topic
		}
		s.sendRecords(batch...)
	}
	c := quick()
	c.Concurrency, c.MaxHeld, c.MaxHeldBytes, c.Logger, c.Order = 4, 100_000, heldLimit, zap.NewNop(), OrderNone
	if way == "by key" {
		c.Order = OrderKey
	}
	var begun atomic.Int64
	over, end := context.WithCancel(t.Context())
	handle := func() error {
		n := begun.Add(1)
		switch {
		case n <= int64(before), way == "most are done" && n%8 != 0:
			return nil
		case way == "most are done":
			return consumer.RetryAfter(errors.New("not yet"), time.Hour)
		}
		<-over.Done()
		return nil
	}
	s.opts = []kgo.Opt{kgo.FetchMaxBytes(1 << 20), kgo.FetchMaxPartitionBytes(256 << 10)}
	at := heapInUse()
	var r *running
	if way == "batches" {
		r = s.startBatch(100, func(_ context.Context, all []*consumer.Message) []error {
			return slices.Repeat([]error{handle()}, len(all))
		}, c)
	} else {
		r = s.start(func(context.Context, *consumer.Message) error { return handle() }, c)
	}
	r.ready()
	eventually(t, "polling has stopped, or all are in hand", func() bool {
		items, bytes := r.eng.Room()
		return bytes <= 0 && begun.Load() > int64(before) || c.MaxHeld-items == h.records || begun.Load() == int64(before+h.records)
	})
	_, room := r.eng.Room()
	grew, counted := int64(0), heldLimit-room
	most := counted + counted/2 + clientsOwn
	for deadline := time.Now().Add(10 * time.Second); ; { // what is on its way to the client goes; what is held does not
		if grew = heapInUse() - at; grew <= most || time.Now().After(deadline) {
			break
		}
	}
	t.Logf("%d KiB are counted, the heap grew by %d KiB", counted>>10, grew>>10)
	if grew > most || counted > heldMost {
		t.Errorf("%d KiB are counted, with a limit of %d; the heap grew by %d KiB, want at most %d", counted>>10, heldLimit>>10, grew>>10, most>>10)
	}
	r.stop()
	end()
	r.end()
}
