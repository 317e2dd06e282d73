package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger/memory"
)

// counter is a sink that only counts.
type counter struct {
	left atomic.Int64
	done chan struct{}
}

func (c *counter) Finish(done []engine.Finished) {
	if c.left.Add(-int64(len(done))) == 0 {
		close(c.done)
	}
}

// The engine's own cost of a message: memory ledger, handler that does nothing, no broker. One iteration is one message.
func BenchmarkEngine(b *testing.B) {
	for _, lanes := range []int{0, 1, 8, 1000} {
		b.Run(fmt.Sprintf("lanes=%d", lanes), func(b *testing.B) {
			o, err := consumer.Options{Name: "bench", Window: time.Hour}.WithDefaults()
			if err != nil {
				b.Fatal(err)
			}
			sink := &counter{done: make(chan struct{})}
			sink.left.Store(int64(b.N))
			e, err := engine.New(engine.Config{
				Options: o, Ledger: memory.New(), Sink: sink, System: "bench",
				Handler: consumer.HandlerFunc(func(context.Context, *consumer.Message) error { return nil }),
			})
			if err == nil {
				err = e.Start(context.Background())
			}
			if err != nil {
				b.Fatal(err)
			}
			in := make([]*engine.Item, b.N)
			for i := range in {
				lane := ""
				if lanes > 0 {
					lane = fmt.Sprint(i % lanes)
				}
				in[i] = item(fmt.Sprint(i), lane)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for rest := in; len(rest) > 0; {
				changed := e.Changed()
				room, _ := e.Room()
				if n := min(room, len(rest), 2000); n > 0 {
					e.Offer(rest[:n])
					rest = rest[n:]
					continue
				}
				<-changed
			}
			<-sink.done
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
			b.StopTimer()
			if err := e.Drain(context.Background()); err != nil {
				b.Error(err)
			}
			if err := e.Close(context.Background()); err != nil {
				b.Error(err)
			}
		})
	}
}
