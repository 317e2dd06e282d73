package sqs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/sqs/sqstest"
)

// counters reads all counters, by name and outcome.
func counters(t *testing.T, reader *sdkmetric.ManualReader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok {
				for _, p := range sum.DataPoints {
					outcome, _ := p.Attributes.Value(attribute.Key("outcome"))
					got[strings.TrimSpace(m.Name+" "+outcome.AsString())] += p.Value
				}
			}
		}
	}
	return got
}

func TestMetricsCountWhatOnlySQSHas(t *testing.T) {
	s, g := newSite(t, "", 100), newGate()
	reader := sdkmetric.NewManualReader()
	c := quick()
	c.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	s.srv.Inject(sqstest.Fault{Action: "DeleteMessageBatch", Status: 500})
	s.srv.Inject(sqstest.Fault{Action: "ReceiveMessage", Status: 500})
	s.send("m")
	r := s.start(g.handle, c)
	eventually(t, "visibility is extended", func() bool {
		return counters(t, reader)["ackledger.sqs.visibility_changes changed"] > 0
	})
	g.release()
	s.empty()
	r.end()
	for _, name := range []string{
		"ackledger.sqs.polls messages", "ackledger.sqs.polls empty", "ackledger.sqs.polls error", "ackledger.sqs.delete_failures",
	} {
		if counters(t, reader)[name] == 0 {
			t.Errorf("%s: not counted", name)
		}
	}
}

// Counters that came with their first event grew from nothing, which no rate in Prometheus shows.
func TestCountersBeginAtZero(t *testing.T) {
	s := newSite(t, "", 100)
	reader := sdkmetric.NewManualReader()
	c := quick()
	c.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	r := s.start(newGate().handle, c)
	eventually(t, "it polls", func() bool { return counters(t, reader)["ackledger.sqs.polls empty"] > 0 })
	for _, name := range []string{
		"ackledger.sqs.polls over_limit", "ackledger.sqs.visibility_changes failed", "ackledger.sqs.visibility_changes expired",
		"ackledger.sqs.delete_failures",
	} {
		if n, ok := counters(t, reader)[name]; n != 0 || !ok {
			t.Errorf("%s is %d, there %v, want 0 and true", name, n, ok)
		}
	}
	r.end()
}

func TestBodiesAreNeverLogged(t *testing.T) {
	s := newSite(t, "", 100)
	core, logs := observer.New(zap.DebugLevel)
	c := quick()
	c.Logger = zap.New(core)
	c.Attempts = 2
	s.srv.Inject(sqstest.Fault{Action: "DeleteMessageBatch", Code: sqstest.CodeExpired, Entries: func(int, string) bool { return true }})
	s.send("secret-1", "secret-2", "secret-3")
	r := s.start(func(_ context.Context, m *consumer.Message) error {
		switch m.Body[len(m.Body)-1] {
		case '1':
			return consumer.Terminal(errors.New("bad"))
		case '2':
			panic("at the disco")
		}
		return nil
	}, c)
	s.empty()
	r.end()
	if logs.Len() < 5 {
		t.Errorf("%d log entries: too few to show anything", logs.Len())
	}
	for _, e := range logs.All() {
		text := fmt.Sprint(e.Message, e.ContextMap())
		if strings.Contains(text, "secret") {
			t.Errorf("a body was logged: %s", text)
		}
		if fields := e.ContextMap(); fields["system"] != "sqs" || fields["source"] == "" || fields["consumer"] != "tests" {
			t.Errorf("an entry without the common fields: %s", text)
		}
	}
}

func TestALedgerThatCannotServeEndsRun(t *testing.T) {
	s := newSite(t, "", 100)
	s.ledger.FailBefore(func(context.Context, memory.Op) error { return ledger.MarkUnusable(errors.New("no tables")) })
	if err := s.worker(nothing, nil).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no tables") {
		t.Errorf("Run: %v, want that the ledger has no tables", err)
	}
}

func TestALedgerThatIsAwayPausesPolling(t *testing.T) {
	s, b := newSite(t, "", 100), newBook()
	r := s.start(b.handle, nil)
	eventually(t, "the worker is ready", func() bool { return r.Health().Ready })
	s.ledger.FailBefore(func(context.Context, memory.Op) error { return errors.New("the database is down") })
	eventually(t, "the worker is not ready", func() bool { return !r.Health().Ready })
	r.pollsNoMore()
	s.send("m")
	always(t, 3*time.Second, "nothing is received", func() bool { return s.srv.Counts(s.name).Visible == 1 && b.len() == 0 })
	s.ledger.FailBefore(nil)
	s.empty()
	r.end()
	b.once(t, []string{"m"})
}

// A queue that cannot be read makes the worker not ready, of which the engine knows nothing.
func TestReadyIsAMetric(t *testing.T) {
	s := newSite(t, "", 100)
	reader := sdkmetric.NewManualReader()
	ready := func() (n int64) {
		var all metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		n = -1
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				if g, ok := m.Data.(metricdata.Gauge[int64]); ok && m.Name == "ackledger.ready" {
					n = g.DataPoints[0].Value
				}
			}
		}
		return n
	}
	c := quick()
	c.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	r := s.start(nothing, c)
	eventually(t, "it is ready", func() bool { return ready() == 1 })
	remove := s.srv.Inject(sqstest.Fault{Action: "ReceiveMessage", Status: 500, Times: -1})
	eventually(t, "it is not ready", func() bool { return ready() == 0 && !r.Health().Ready })
	remove()
	eventually(t, "it is ready again", func() bool { return ready() == 1 })
	r.end()
	if n := ready(); n != -1 {
		t.Errorf("a worker that ended is observed: %d", n)
	}
}
