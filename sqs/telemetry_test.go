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

// counted reads a counter, of one outcome if that is not empty.
func counted(t *testing.T, reader *sdkmetric.ManualReader, name, outcome string) (n int64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			if m.Name != name || !ok {
				continue
			}
			for _, p := range sum.DataPoints {
				if v, _ := p.Attributes.Value(attribute.Key("outcome")); outcome == "" || v.AsString() == outcome {
					n += p.Value
				}
			}
		}
	}
	return n
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
		return counted(t, reader, "ackledger.sqs.visibility_changes", "changed") > 0
	})
	g.release()
	s.empty()
	r.end()
	for _, want := range []struct{ name, outcome string }{
		{"ackledger.sqs.polls", "messages"}, {"ackledger.sqs.polls", "empty"}, {"ackledger.sqs.polls", "error"},
		{"ackledger.sqs.delete_failures", ""},
	} {
		if n := counted(t, reader, want.name, want.outcome); n == 0 {
			t.Errorf("%s %s: not counted", want.name, want.outcome)
		}
	}
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
