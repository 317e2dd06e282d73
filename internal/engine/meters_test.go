package engine

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	api "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger/memory"
)

// Dead letters are counted by whether their target has them.
func TestForwardedLettersAreCounted(t *testing.T) {
	reader := metric.NewManualReader()
	o, err := consumer.Options{Name: "n", MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	e := idle(t, o)
	e.tel.published(2, true)
	e.tel.published(3, false)
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "ackledger.dead_letters.forwarded" {
				for _, p := range sum.DataPoints {
					outcome, _ := p.Attributes.Value(attribute.Key("outcome"))
					got[outcome.AsString()] = p.Value
				}
			}
		}
	}
	if got["sent"] != 2 || got["unsent"] != 3 {
		t.Errorf("%v, want 2 sent and 3 unsent", got)
	}
}

// noMeter is a provider of meters that refuse counters, or histograms.
type noMeter struct {
	noop.MeterProvider
	meter refusingMeter
}

type refusingMeter struct {
	noop.Meter
	counters, histograms error
}

func (p noMeter) Meter(string, ...api.MeterOption) api.Meter { return p.meter }

func (m refusingMeter) Int64Counter(string, ...api.Int64CounterOption) (api.Int64Counter, error) {
	return noop.Int64Counter{}, m.counters
}

func (m refusingMeter) Float64Histogram(string, ...api.Float64HistogramOption) (api.Float64Histogram, error) {
	return noop.Float64Histogram{}, m.histograms
}

// Metrics that cannot be made are an error at once, not a worker without them.
func TestRefusedMetersAreAnError(t *testing.T) {
	refused := errors.New("no such instrument")
	for name, m := range map[string]refusingMeter{"counters": {counters: refused}, "histograms": {histograms: refused}, "none": {}} {
		o, err := consumer.Options{Name: "n", MeterProvider: noMeter{meter: m}}.WithDefaults()
		if err != nil {
			t.Fatal(err)
		}
		handler := consumer.HandlerFunc(func(context.Context, *consumer.Message) error { return nil })
		_, err = New(Config{Options: o, Ledger: memory.New(), Handler: handler, Sink: deaf{}, System: "test", Source: "source"})
		if want := m != (refusingMeter{}); errors.Is(err, refused) != want || !want && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
