package idempotency_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger/memory"
)

// counted are the requests by result and status, but for those of zero.
func counted(t *testing.T, reader *sdkmetric.ManualReader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != "ackledger.idempotency.requests" {
				continue
			}
			for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
				var words []string
				for _, key := range []attribute.Key{"result", "status", "waited"} {
					if v, ok := p.Attributes.Value(key); ok && v.String() != "false" {
						words = append(words, v.String())
					}
				}
				if p.Value > 0 {
					got[strings.Join(words, " ")] += p.Value
				}
			}
		}
	}
	return got
}

// Each request is counted by how it was answered.
func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	r := begin(t, memory.New(), idempotency.Options{Attempts: 1, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	f, _ := answers("done", nil)
	bad, _ := answers("", consumer.Terminal(errBoom))
	do := func(key, body string, f idempotency.Func) {
		q := request(key)
		q.Body = []byte(body)
		_, _ = r.Do(t.Context(), q, f)
	}
	do("a", "x", f)
	do("a", "x", f)
	do("a", "x", f)
	do("a", "y", f)
	do("b", "x", bad)
	do("b", "x", bad)
	do("no key", "x", f)
	func() {
		defer func() { _ = recover() }()
		do("c", "x", func(context.Context) (idempotency.Result, error) { panic("c") })
	}()
	want := map[string]int64{"miss": 3, "hit 201": 2, "hit 0": 1, "conflict": 1, "other": 1}
	if got := counted(t, reader); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// What meets another that runs counts as what became of its wait.
func TestWaitsAreCounted(t *testing.T) {
	for _, c := range []struct {
		o    idempotency.Options
		want map[string]int64
	}{
		{idempotency.Options{Refuse: true}, map[string]int64{"miss": 1, "in_progress": 1}},
		{idempotency.Options{Wait: time.Second}, map[string]int64{"miss": 1, "pending_timeout true": 1}},
		{idempotency.Options{Waiting: 1, Concurrency: 1}, map[string]int64{"miss": 1, "full": 1}},
		{idempotency.Options{}, map[string]int64{"miss": 1, "hit 201 true": 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			reader := sdkmetric.NewManualReader()
			c.o.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
			r := begin(t, memory.New(), c.o)
			done, _ := answers("done", nil)
			first := make(chan error, 1)
			go func() {
				_, err := r.Do(t.Context(), request("a"), func(ctx context.Context) (idempotency.Result, error) {
					time.Sleep(2 * time.Second)
					return done(ctx)
				})
				first <- err
			}()
			synctest.Wait() // it runs
			_, err := r.Do(t.Context(), request("a"), done)
			if hit := c.want["hit 201 true"] > 0; hit != (err == nil) {
				t.Errorf("%v: the second one: %v", c.want, err)
			}
			if err := <-first; err != nil {
				t.Error(err)
			}
			if got := counted(t, reader); !maps.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// Where nothing runs, nothing is available.
func TestUnavailableIsCounted(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	r, err := idempotency.New(memory.New(), idempotency.Options{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	if err != nil {
		t.Fatal(err)
	}
	f, _ := answers("", nil)
	if _, err := r.Do(t.Context(), request("a"), f); !errors.Is(err, idempotency.ErrUnavailable) {
		t.Fatal(err)
	}
	if got := counted(t, reader); got["unavailable"] != 1 {
		t.Errorf("%v", got)
	}
}
