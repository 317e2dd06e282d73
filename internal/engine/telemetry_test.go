package engine_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"
)

// read collects all metrics: counters and gauges by their value, histograms by their count; with the attributes that are
// not the same for all of a worker's.
func read(t *testing.T, r metric.Reader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	name := func(m metricdata.Metrics, set attribute.Set) string {
		s := m.Name
		for _, kv := range set.ToSlice() {
			switch kv.Key {
			case "messaging.system":
				if kv.Value.AsString() != "test" {
					t.Errorf("%s: system %s", m.Name, kv.Value.AsString())
				}
			case "messaging.destination.name", "messaging.consumer.group.name":
			default:
				s += " " + kv.Value.AsString()
			}
		}
		return s
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch d := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					got[name(m, p.Attributes)] = p.Value
				}
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					got[name(m, p.Attributes)] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range d.DataPoints {
					got[name(m, p.Attributes)] = int64(p.Count)
				}
			default:
				t.Errorf("%s: %T", m.Name, d)
			}
		}
	}
	return got
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		reader := metric.NewManualReader()
		o := options()
		o.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
		hold := make(chan struct{})
		net := &link{Ledger: l}
		e, b := begin(t, net, o, func(_ context.Context, m *consumer.Message) error {
			switch {
			case m.ID == "retried" && m.Attempt == 1:
				return errBoom
			case m.ID == "terminal":
				return consumer.Terminal(errBoom)
			case m.ID == "long":
				<-hold
			}
			return nil
		})
		for _, name := range []string{
			"ackledger.claims done", "ackledger.takeovers", "ackledger.leases.lost", "ackledger.retries", "ackledger.dead_letters terminal",
			"ackledger.settles.unknown", "ackledger.skipped",
		} { // its first event is a growth only if it was there before
			if n, ok := read(t, reader)[name]; n != 0 || !ok {
				t.Errorf("%s is %d, there %v, want 0 and true", name, n, ok)
			}
		}
		abandoned := item("taken over", "")
		if err := holdElsewhere(t, l, abandoned).Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		busy := item("busy", "")
		holdElsewhere(t, l, busy)
		other := item("retried", "")
		other.Fingerprint = ledger.BodyFingerprint([]byte("other"))
		other.Delivery = []byte("other delivery")
		skip := item("skip", "")
		skip.Skip = true
		e.Offer([]*engine.Item{item("retried", ""), item("terminal", ""), item("long", ""), abandoned, busy, skip})
		pass(5 * time.Second)
		e.Offer([]*engine.Item{item("terminal", ""), other})
		net.set(nil, func(op memory.Op) error { return only(memory.Settle, errDown)(op) })
		e.Offer([]*engine.Item{item("unknown", "")})
		pass(time.Second)
		net.set(nil, nil)
		pass(10 * time.Second) // a repetition may wait for 5
		got := read(t, reader)
		want := map[string]int64{
			"ackledger.claims done": 1, "ackledger.claims mismatch": 1, "ackledger.claims run": 6, "ackledger.takeovers": 1,
			"ackledger.dead_letters terminal": 1, "ackledger.dead_letters mismatch": 1, "ackledger.retries": 1, "ackledger.skipped": 1,
			"ackledger.in_flight running": 1, "ackledger.in_flight queued": 0, "ackledger.in_flight waiting": 1,
			"ackledger.handler.duration ok": 3, "ackledger.handler.duration error": 2,
		}
		for name, n := range want {
			if got[name] != n {
				t.Errorf("%s is %d, want %d", name, got[name], n)
			}
		}
		for _, name := range []string{"ackledger.claims busy", "ackledger.settles.unknown", "ackledger.claim.duration", "ackledger.settle.duration", "ackledger.end_to_end.duration"} {
			if got[name] == 0 {
				t.Errorf("%s is 0", name)
			}
		}
		l.Declare(net.owner())
		pass(10 * time.Second)
		if n := read(t, reader)["ackledger.leases.lost"]; n != 1 {
			t.Errorf("%d leases lost, want 1", n)
		}
		close(hold)
		pass(time.Minute)
		b.wantAcked(t, abandoned, skip, other)
		end(t, e)
		after := read(t, reader)
		if _, still := after["ackledger.in_flight running"]; still {
			t.Errorf("a closed worker is still observed: %v", maps.Collect(maps.All(after)))
		}
	})
}

func TestTraceGoesOnIntoTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const id = "4bf92f3577b34da6a3ce929d0e0e4736"
		seen := map[string]string{}
		e, b := begin(t, memory.New(), options(), func(ctx context.Context, m *consumer.Message) error {
			seen[m.ID] = trace.SpanContextFromContext(ctx).TraceID().String()
			return nil
		}, func(c *engine.Config) { c.Options.Concurrency = 1 })
		in := items(3, noLane)
		in[0].Msg.Headers = []consumer.Header{{Name: "traceparent", Value: fmt.Append(nil, "00-", id, "-00f067aa0ba902b7-01")}}
		in[1].Msg.Headers = []consumer.Header{{Name: "traceparent", Value: []byte("nonsense")}}
		e.Offer(in)
		pass(time.Second)
		b.wantAcked(t, in...)
		none := trace.TraceID{}.String()
		if seen["m00000"] != id || seen["m00001"] != none || seen["m00002"] != none {
			t.Errorf("traces %v", seen)
		}
		end(t, e)
	})
}
