package engine

import (
	"context"
	"errors"
	"sync"

	"github.com/ackledger/ackledger/ledger"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// relayMeters tells how an outbox does.
type relayMeters struct {
	sends, fails, deads metric.Int64Counter
	gauges              metric.Registration
	attrs               map[string]metric.MeasurementOption // by target

	mu    sync.Mutex
	stats []ledger.OutboxStats
}

func newRelayMeters(mp metric.MeterProvider, targets []string) (*relayMeters, error) {
	if mp == nil {
		mp = otel.GetMeterProvider()
	}
	m, t := mp.Meter(instrumentation), &relayMeters{attrs: map[string]metric.MeasurementOption{}}
	var errs [6]error
	t.sends, errs[0] = m.Int64Counter("ackledger.outbox.sent", metric.WithDescription("Messages of the outbox that were sent."))
	t.fails, errs[1] = m.Int64Counter("ackledger.outbox.refused", metric.WithDescription("Refusals of messages of the outbox that were counted."))
	t.deads, errs[2] = m.Int64Counter("ackledger.outbox.dead", metric.WithDescription("Messages of the outbox that were refused for good and archived."))
	waiting, err := m.Int64ObservableGauge("ackledger.outbox.waiting", metric.WithDescription("Messages that wait in the outbox, counted every 10 s."))
	errs[3] = err
	oldest, err := m.Float64ObservableGauge("ackledger.outbox.oldest", metric.WithUnit("s"), metric.WithDescription("For how long the oldest message of the outbox waits."))
	errs[4] = err
	t.gauges, errs[5] = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		for i := range t.stats {
			s := &t.stats[i]
			at := t.of(s.Target)
			o.ObserveInt64(waiting, s.Waiting, at)
			o.ObserveFloat64(oldest, s.Oldest.Seconds(), at)
		}
		return nil
	}, waiting, oldest)
	for _, name := range targets {
		t.attrs[name] = metric.WithAttributeSet(attribute.NewSet(attribute.String("target", name)))
		for _, c := range []metric.Int64Counter{t.sends, t.fails, t.deads} {
			c.Add(context.Background(), 0, t.attrs[name])
		}
	}
	return t, errors.Join(errs[:]...)
}

// of are the attributes of a target, also of one that others relay.
func (t *relayMeters) of(target string) metric.MeasurementOption {
	if at, ok := t.attrs[target]; ok {
		return at
	}
	return metric.WithAttributeSet(attribute.NewSet(attribute.String("target", target)))
}

func (t *relayMeters) sent(target string, n int) {
	t.sends.Add(context.Background(), int64(n), t.of(target))
}
func (t *relayMeters) failed(target string) { t.fails.Add(context.Background(), 1, t.of(target)) }
func (t *relayMeters) dead(target string)   { t.deads.Add(context.Background(), 1, t.of(target)) }
func (t *relayMeters) close()               { _ = t.gauges.Unregister() } // an error means that it is gone already

// counted takes what waits now. A target of which nothing waits any more has zero.
func (t *relayMeters) counted(all []ledger.OutboxStats) {
	t.mu.Lock()
	defer t.mu.Unlock()
	there := map[string]bool{}
	for i := range all {
		there[all[i].Target] = true
	}
	for name := range t.attrs {
		if !there[name] {
			all = append(all, ledger.OutboxStats{Target: name})
		}
	}
	t.stats = all
}
