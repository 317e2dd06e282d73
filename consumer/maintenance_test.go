package consumer_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// keeper is a ledger.Maintainer that counts how many maintain now, and may fail.
type keeper struct {
	ledger.Maintainer
	now, began atomic.Int32
	err        error
}

func (k *keeper) Maintain(ctx context.Context, _ ledger.MaintainConfig) error {
	k.began.Add(1)
	if k.err != nil {
		return k.err
	}
	k.now.Add(1)
	defer k.now.Add(-1)
	<-ctx.Done()
	return nil
}

func TestMaintenanceRunsPausesAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		w := consumer.Maintenance(k, ledger.MaintainConfig{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- consumer.Run(ctx, w) }()
		for i, step := range []struct {
			do      func()
			running bool
		}{
			{func() {}, true}, {w.Pause, false}, {w.Pause, false}, {w.Resume, true}, {w.Resume, true},
			{func() { w.Pause(); w.Resume() }, true}, {func() { w.Resume(); w.Pause() }, false}, {w.Resume, true},
		} {
			step.do()
			synctest.Wait()
			if h := w.Health(); (k.now.Load() == 1) != step.running || h.Ready != step.running || !h.Alive {
				t.Fatalf("step %d: %d maintain, %+v", i, k.now.Load(), h)
			}
		}
		cancel()
		if err := <-ended; err != nil || k.now.Load() != 0 {
			t.Fatalf("%v, %d maintain", err, k.now.Load())
		}
		if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "runs once") {
			t.Errorf("a second Run: %v", err)
		}
	})
}

func TestMaintenanceFails(t *testing.T) {
	broken := errors.New("no tables")
	w := consumer.Maintenance(&keeper{err: broken}, ledger.MaintainConfig{})
	if err := w.Run(t.Context()); !errors.Is(err, broken) || w.Health().LastError != "no tables" {
		t.Errorf("%v, %+v", err, w.Health())
	}
	if err := consumer.Maintenance(nil, ledger.MaintainConfig{}).Run(t.Context()); err == nil {
		t.Error("no ledger: accepted")
	}
}

// collected are the values of one metric by their attributes.
func collected(t *testing.T, reader sdk.Reader, name string) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	return valuesOf(&all, name)
}

func valuesOf(all *metricdata.ResourceMetrics, name string) map[string]float64 {
	out := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch d := m.Data.(type) {
			case metricdata.Gauge[int64]:
				for _, p := range d.DataPoints {
					out[p.Attributes.Encoded(attribute.DefaultEncoder())] = float64(p.Value)
				}
			case metricdata.Sum[int64]:
				for _, p := range d.DataPoints {
					out[p.Attributes.Encoded(attribute.DefaultEncoder())] = float64(p.Value)
				}
			case metricdata.Sum[float64]:
				for _, p := range d.DataPoints {
					out[p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Value
				}
			case metricdata.Gauge[float64]:
				for _, p := range d.DataPoints {
					out[p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Value
				}
			}
		}
	}
	return out
}

func TestObserveLedger(t *testing.T) {
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	l := memory.New(memory.WithClock(func() time.Time { return now }))
	reader := sdk.NewManualReader()
	registration, err := consumer.ObserveLedger(l, sdk.NewMeterProvider(sdk.WithReader(reader)))
	if err != nil {
		t.Fatal(err)
	}
	if got := collected(t, reader, "ackledger.ledger.pass.age"); len(got) != 0 {
		t.Errorf("before the first pass: %v", got)
	}
	o, err := l.Join(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	entries := []ledger.Entry{
		{Key: ledger.Key{Scope: "s", ID: []byte("a")}, Delivery: []byte("a"), Window: time.Hour},
		{Key: ledger.Key{Scope: "s", ID: []byte("b")}, Delivery: []byte("b"), Window: time.Hour},
	}
	claims, err := o.Claim(t.Context(), entries)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Settle(t.Context(), []ledger.Settlement{{Ticket: claims[0].Ticket, Kind: ledger.Succeed}}); err != nil {
		t.Fatal(err)
	}
	if again, err := o.Claim(t.Context(), entries[:1]); err != nil || again[0].Answer != ledger.Done {
		t.Fatalf("%+v, %v", again, err)
	}
	now = now.Add(2 * time.Hour)
	if _, err := l.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	for name, want := range map[string]map[string]float64{
		"ackledger.ledger.messages":       {"scope=s,state=pending": 1, "scope=s,state=succeeded": 0, "scope=s,state=failed": 0},
		"ackledger.ledger.abandoned":      {"scope=s": 1},
		"ackledger.ledger.pending.oldest": {"scope=s": 7200},
		"ackledger.ledger.pending.age":    {"quantile=0.95,scope=s": 7200, "quantile=0.99,scope=s": 7200},
		"ackledger.ledger.owners":         {"fate=live": 0, "fate=overdue": 1, "fate=left": 0, "fate=dead": 0},
		"ackledger.ledger.lock_waits":     {"": 0},
		"ackledger.ledger.lock_wait.time": {"": 0},
		"ackledger.ledger.claims":         {"answer=done": 1, "answer=other": 2},
		"ackledger.ledger.pass.age":       {"": 60},
		"ackledger.ledger.pass.removed":   {"": 1},
		"ackledger.ledger.table.rows":     {"table=message": 1, "table=archive": 0, "table=owner": 1},
	} {
		got := collected(t, reader, name)
		for attributes, value := range want {
			if v, ok := got[attributes]; !ok || v != value {
				t.Errorf("%s{%s} is %v (%t), want %v; all: %v", name, attributes, v, ok, value, got)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if err := registration.Unregister(); err != nil {
		t.Fatal(err)
	}
	if got := collected(t, reader, "ackledger.ledger.messages"); len(got) != 0 {
		t.Errorf("after Unregister: %v", got)
	}
}

// lame is an inspector whose ledger is away.
type lame struct{}

func (lame) Stats(context.Context) (ledger.Stats, error) { return ledger.Stats{}, errors.New("away") }

func TestObserveLedgerThatIsAway(t *testing.T) {
	if _, err := consumer.ObserveLedger(nil, nil); err == nil {
		t.Error("no ledger: accepted")
	}
	reader := sdk.NewManualReader()
	if _, err := consumer.ObserveLedger(lame{}, sdk.NewMeterProvider(sdk.WithReader(reader))); err != nil {
		t.Fatal(err)
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err == nil || !strings.Contains(err.Error(), "away") {
		t.Errorf("collect: %v", err)
	}
	if slices.ContainsFunc(all.ScopeMetrics, func(s metricdata.ScopeMetrics) bool { return len(s.Metrics) > 0 }) {
		t.Errorf("metrics of a ledger that is away: %+v", all.ScopeMetrics)
	}
}

// crowded is a ledger that is away, and whose pools are known all the same.
type crowded struct{ lame }

func (crowded) Pools() []ledger.PoolStats {
	return []ledger.PoolStats{
		{Name: "ledger", InUse: 1, Max: 4, Waits: 2, Waited: time.Second},
		{Name: "intx", InUse: 10, Max: 10, Waits: 30, Waited: 90 * time.Second, GaveUp: 5},
	}
}

// A pool that is empty is to be seen in the hour in which the database is away.
func TestObserveLedgerPools(t *testing.T) {
	reader := sdk.NewManualReader()
	if _, err := consumer.ObserveLedger(crowded{}, sdk.NewMeterProvider(sdk.WithReader(reader))); err != nil {
		t.Fatal(err)
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err == nil || !strings.Contains(err.Error(), "away") {
		t.Errorf("collect: %v", err)
	}
	for name, want := range map[string]map[string]float64{
		"ackledger.ledger.pool.used": {"pool=ledger": 1, "pool=intx": 10},
		"ackledger.ledger.pool.max":  {"pool=ledger": 4, "pool=intx": 10},
		"ackledger.ledger.pool.waits": {
			"outcome=served,pool=ledger": 2, "outcome=gave_up,pool=ledger": 0, "outcome=served,pool=intx": 30, "outcome=gave_up,pool=intx": 5,
		},
		"ackledger.ledger.pool.wait.time": {"pool=ledger": 1, "pool=intx": 90},
	} {
		if got := valuesOf(&all, name); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
