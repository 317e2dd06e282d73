package engine

import (
	"context"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// gauges is what is read of a worker when its metrics are collected: what it has in hand, and what probes are told.
type gauges struct {
	inFlight, concurrency, bytes, limit, ready, alive, stalled, breaker, paused, archived, budget metric.Int64ObservableGauge
	parked, parkedBytes, overdue                                                                  metric.Int64ObservableGauge
	permits                                                                                       permitGauges
}

// permitGauges are of keys of Options.Limit.
type permitGauges struct{ held, waiting metric.Int64ObservableGauge }

// observe registers the gauges, and has reports say the same.
func observe(e *Engine, t *telemetry, m metric.Meter) error {
	var g gauges
	var all []metric.Observable
	for _, of := range []struct {
		gauge      *metric.Int64ObservableGauge
		name, text string
	}{
		{&g.inFlight, "ackledger.in_flight", "Messages in hand, by state."},
		{&g.concurrency, "ackledger.concurrency", "How many handlers may run at once."},
		{&g.bytes, "ackledger.held.bytes", "What the messages in hand take in memory, in bytes."},
		{&g.limit, "ackledger.held.bytes.limit", "At how many bytes in hand the worker stops polling."},
		{&g.ready, "ackledger.ready", "1: joined, the ledger answers, the broker is polled; 0: not so."},
		{&g.alive, "ackledger.alive", "0: only a restart helps; 1: not so."},
		{&g.breaker, "ackledger.breaker.open", "1: the worker is paused, because too many messages fail for good; 0: not so."},
		{&g.paused, "ackledger.paused", "1: the worker is paused, by an operator; 0: not so."},
		{&g.archived, "ackledger.archive.bytes", "About how much of a scope is archived, in bytes."},
		{&g.budget, "ackledger.archive.budget", "At how many archived bytes of a scope the worker pauses."},
		{&g.parked, "ackledger.parked", "Retries of a scope that wait in the ledger."},
		{&g.parkedBytes, "ackledger.parked.bytes", "What the retries of a scope that wait in the ledger take there, in bytes."},
		{&g.overdue, "ackledger.parked.overdue", "For how many seconds the retry of a scope that waits in the ledger has been due that has been due for longest."},
		{&g.permits.held, "ackledger.permits", "Permits of keys of Options.Limit in hand."},
		{&g.permits.waiting, "ackledger.permits.waiting", "Messages in hand that wait for a permit of their key of Options.Limit."},
		{&g.stalled, "ackledger.stalled", "Messages, partitions and groups that do not get on, by reason."},
	} {
		made, err := m.Int64ObservableGauge(of.name, metric.WithDescription(of.text))
		if err != nil {
			return err
		}
		*of.gauge = made
		all = append(all, made)
	}
	states := attributes("state", "running", "queued", "waiting")
	reasons := attributes("reason", consumer.StallReasons()...)
	health := e.cfg.Shown.Health
	if health == nil {
		health = e.Health
	}
	e.reports.health, e.reports.load = health, func(r *ledger.WorkerReport) {
		l := e.load()
		r.Held, r.Running, r.Waiting = l.Held, l.Running, l.Waiting
	}
	registered, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		e.mu.Lock()
		l, archived, parked := e.load(), e.flow.Archived(), e.pool.handlers.parking.counted()
		_, _, weight := e.flow.Held()
		bytes := weight.Total()
		open, _ := e.flow.BreakerOpen()
		_, paused, _ := e.flow.Order()
		concurrency := e.flow.Concurrency()
		permits, waiting := e.flow.Permits()
		e.mu.Unlock()
		o.ObserveInt64(g.inFlight, int64(l.Running), t.attrs, states["running"])
		o.ObserveInt64(g.inFlight, int64(l.Queued), t.attrs, states["queued"])
		o.ObserveInt64(g.inFlight, int64(l.Waiting), t.attrs, states["waiting"])
		o.ObserveInt64(g.concurrency, int64(concurrency), t.attrs)
		o.ObserveInt64(g.bytes, bytes, t.attrs)
		o.ObserveInt64(g.limit, e.opt.MaxHeldBytes, t.attrs)
		h := health()
		o.ObserveInt64(g.ready, one(h.Ready), t.attrs)
		o.ObserveInt64(g.alive, one(h.Alive), t.attrs)
		o.ObserveInt64(g.breaker, one(open), t.attrs)
		o.ObserveInt64(g.paused, one(paused), t.attrs)
		for scope, n := range archived {
			of := metric.WithAttributes(attribute.String("scope", scope))
			o.ObserveInt64(g.archived, n, t.attrs, of)
			o.ObserveInt64(g.budget, e.opt.ArchiveBudget, t.attrs, of)
		}
		for scope, s := range parked {
			g.observeParked(o, s, t.attrs, metric.WithAttributes(attribute.String("scope", scope)))
		}
		if e.opt.Limit != nil {
			g.permits.observe(o, permits, waiting, t.attrs)
		}
		g.observeStalls(o, h.Stalled, reasons, t.attrs)
		return nil
	}, all...)
	t.gauges = registered
	return err
}

func (g *permitGauges) observe(o metric.Observer, held, waiting int, attrs metric.MeasurementOption) {
	o.ObserveInt64(g.held, int64(held), attrs)
	o.ObserveInt64(g.waiting, int64(waiting), attrs)
}

// observeParked measures what is parked of one scope.
func (g *gauges) observeParked(o metric.Observer, s ledger.ParkedStats, attrs, scope metric.MeasurementOption) {
	o.ObserveInt64(g.parked, s.Messages, attrs, scope)
	o.ObserveInt64(g.parkedBytes, s.Bytes, attrs, scope)
	o.ObserveInt64(g.overdue, int64(s.Overdue.Seconds()), attrs, scope)
}

// observeStalls measures how much does not get on, by each reason.
func (g *gauges) observeStalls(o metric.Observer, stalls []consumer.Stall, reasons map[string]metric.MeasurementOption, attrs metric.MeasurementOption) {
	stalled := map[string]int64{}
	for i := range stalls {
		stalled[stalls[i].Reason]++
	}
	for reason, attribute := range reasons {
		o.ObserveInt64(g.stalled, stalled[reason], attrs, attribute)
	}
}

// attributes are those with which each of the values is measured.
func attributes(name string, values ...string) map[string]metric.MeasurementOption {
	made := make(map[string]metric.MeasurementOption, len(values))
	for _, v := range values {
		made[v] = metric.WithAttributes(attribute.String(name, v))
	}
	return made
}

func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
