package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger/memory"
	"go.opentelemetry.io/otel/sdk/metric"
)

// wantGauges collects the metrics, and compares those that are named.
func wantGauges(t *testing.T, when string, r metric.Reader, want map[string]int64) {
	t.Helper()
	got := read(t, r)
	for name, n := range want {
		if have, ok := got["ackledger."+name]; !ok || have != n {
			t.Errorf("%s: %s is %d, there %v, want %d", when, name, have, ok, n)
		}
	}
}

// What probes are told is a metric, too: each field of Health is seen to change.
func TestGaugesSayWhatHealthSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, reader := memory.New(), metric.NewManualReader()
		o := options()
		o.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
		o.SlowAfter, o.HandlerTimeout, o.MaxHeldBytes = time.Minute, 3*time.Minute, 1<<20
		wake := make(chan struct{})
		e, b := begin(t, l, o, func(context.Context, *consumer.Message) error { <-wake; return nil })
		wantGauges(t, "idle", reader, map[string]int64{
			"ready": 1, "alive": 1, "held.bytes": 0, "held.bytes.limit": 1 << 20,
			"stalled slow": 0, "stalled deaf": 0, "stalled refused": 0, "stalled span": 0, "stalled room": 0,
		})
		wantGauges(t, "idle", reader, map[string]int64{"in_flight running": 0, "in_flight queued": 0, "in_flight waiting": 0})
		held := item("held", "")
		held.Msg.Body = make([]byte, 5000)
		e.Offer([]*engine.Item{held})
		pass(2 * time.Minute)
		wantGauges(t, "slow", reader, map[string]int64{"ready": 1, "alive": 1, "stalled slow": 1, "stalled deaf": 0})
		if n := read(t, reader)["ackledger.held.bytes"]; n < 5000 || n > 10_000 {
			t.Errorf("%d bytes held, want those of the message and little more", n)
		}
		pass(time.Minute + time.Second)
		wantGauges(t, "deaf", reader, map[string]int64{"ready": 1, "alive": 1, "stalled slow": 0, "stalled deaf": 1})
		pass(time.Minute)
		wantGauges(t, "dead", reader, map[string]int64{"alive": 0, "stalled deaf": 1})
		close(wake)
		pass(time.Second)
		l.FailBefore(func(context.Context, memory.Op) error { return errors.New("the database is down") })
		pass(30 * time.Second)
		wantGauges(t, "without its ledger", reader, map[string]int64{"ready": 0, "alive": 1, "held.bytes": 0, "stalled deaf": 0})
		l.FailBefore(nil)
		pass(30 * time.Second)
		wantGauges(t, "well again", reader, map[string]int64{"ready": 1, "alive": 1})
		e.Pause()
		wantGauges(t, "paused", reader, map[string]int64{"ready": 0, "alive": 1})
		if len(b.done) == 0 {
			t.Error("the message was not finished")
		}
		end(t, e)
		if _, still := read(t, reader)["ackledger.ready"]; still {
			t.Error("a closed worker is still observed")
		}
	})
}

// The worker knows more than its engine: its Health is what the metrics say.
func TestGaugesAreTheWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := metric.NewManualReader()
		o := options()
		o.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
		whole := func() consumer.Health {
			return consumer.Health{Stalled: []consumer.Stall{{Reason: consumer.StallRoom}, {Reason: consumer.StallRoom}, {Reason: consumer.StallSpan}}}
		}
		e, _ := begin(t, memory.New(), o, func(context.Context, *consumer.Message) error { return nil },
			func(c *engine.Config) { c.Shown.Health = whole })
		wantGauges(t, "the worker's", reader, map[string]int64{"ready": 0, "alive": 0, "stalled room": 2, "stalled span": 1, "stalled slow": 0})
		end(t, e)
	})
}
