package consumer

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/ackledger/ackledger/ledger"
)

// instrumentation is the name of the instrumentation scope of all of ackledger's metrics.
const instrumentation = "github.com/ackledger/ackledger"

// observeLimit bounds one reading of the statistics, so that a ledger that is away does not hold a scrape up.
const observeLimit = 5 * time.Second

// ObserveLedger makes metrics of a ledger's statistics; docs/telemetry.md lists them. They are read when the metrics are
// collected, by [ledger.Inspector.Stats]; a reading that fails goes to OpenTelemetry's error handler. Call it once in
// one or a few processes: the ledger is one, whoever looks. Its pools of connections ([ledger.PoolInspector]) are this process'
// own, though, and are read even while the database is away. A nil provider means the global one. Unregister ends it.
func ObserveLedger(l ledger.Inspector, mp metric.MeterProvider) (metric.Registration, error) {
	if l == nil {
		return nil, errors.New("consumer: ObserveLedger: must be given a ledger, is given nil")
	}
	if mp == nil {
		mp = otel.GetMeterProvider()
	}
	o := &observer{ledger: l, meter: mp.Meter(instrumentation)}
	o.messages = o.int("ackledger.ledger.messages", "Messages in the ledger at its last pass, by scope and state.")
	o.abandoned = o.int("ackledger.ledger.abandoned", "Pending messages past their expiry, by scope.")
	o.oldest = o.seconds("ackledger.ledger.pending.oldest", "Age of the oldest pending message, by scope.")
	o.age = o.seconds("ackledger.ledger.pending.age", "Percentiles of the ages of pending messages, by scope and quantile.")
	o.owners = o.int("ackledger.ledger.owners", "Workers' lives in the ledger, by fate.")
	o.rows = o.int("ackledger.ledger.table.rows", "Estimated rows, by table.")
	o.bytes = o.int("ackledger.ledger.table.bytes", "Size, by table and part.")
	o.waits = o.int("ackledger.ledger.lock_waits", "Sessions on the ledger's tables that wait for a lock now.")
	o.waited = o.sum("ackledger.ledger.lock_wait.time", "How long sessions waited for locks in sum, as far as this process has seen it.")
	o.passAge = o.seconds("ackledger.ledger.pass.age", "How long ago the last pass ended that counted the messages.")
	o.passTook = o.seconds("ackledger.ledger.pass.duration", "How long the last pass took.")
	o.passRemoved = o.int("ackledger.ledger.pass.removed", "Rows that the last pass removed.")
	o.claims = o.counter("ackledger.ledger.claims", "Claims that this process' ledger has decided, by whether the message was finished already.")
	o.poolUsed = o.int("ackledger.ledger.pool.used", "Connections of this process in hand, by pool.")
	o.poolMax = o.int("ackledger.ledger.pool.max", "The most connections of this process, by pool.")
	o.poolWaits = o.counter("ackledger.ledger.pool.waits", "Calls for which no connection was free, by pool and outcome.")
	o.poolWaited = o.sum("ackledger.ledger.pool.wait.time", "How long calls waited for a connection in sum, by pool; those that got one.")
	if o.err != nil {
		return nil, o.err
	}
	return o.meter.RegisterCallback(o.observe, o.made...)
}

// observer holds the instruments.
type observer struct {
	ledger ledger.Inspector
	meter  metric.Meter
	made   []metric.Observable
	err    error

	messages, abandoned, owners, rows, bytes, waits, passRemoved metric.Int64ObservableGauge
	poolUsed, poolMax                                            metric.Int64ObservableGauge
	oldest, age, passAge, passTook                               metric.Float64ObservableGauge
	claims, poolWaits                                            metric.Int64ObservableCounter
	waited, poolWaited                                           metric.Float64ObservableCounter
}

func (o *observer) sum(name, text string) metric.Float64ObservableCounter {
	c, err := o.meter.Float64ObservableCounter(name, metric.WithUnit("s"), metric.WithDescription(text))
	o.note(c, err)
	return c
}

func (o *observer) counter(name, text string) metric.Int64ObservableCounter {
	c, err := o.meter.Int64ObservableCounter(name, metric.WithDescription(text))
	o.note(c, err)
	return c
}

func (o *observer) int(name, text string) metric.Int64ObservableGauge {
	g, err := o.meter.Int64ObservableGauge(name, metric.WithDescription(text))
	o.note(g, err)
	return g
}

func (o *observer) seconds(name, text string) metric.Float64ObservableGauge {
	g, err := o.meter.Float64ObservableGauge(name, metric.WithDescription(text), metric.WithUnit("s"))
	o.note(g, err)
	return g
}

func (o *observer) note(g metric.Observable, err error) {
	o.err = cmp.Or(o.err, err)
	o.made = append(o.made, g)
}

func (o *observer) observe(ctx context.Context, out metric.Observer) error {
	if p, ok := o.ledger.(ledger.PoolInspector); ok {
		for _, s := range p.Pools() {
			o.pool(out, &s)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, observeLimit)
	defer cancel()
	s, err := o.ledger.Stats(ctx)
	if err != nil {
		return err
	}
	for i := range s.Scopes {
		o.scope(out, &s.Scopes[i])
	}
	for fate, n := range map[string]int64{
		"live": s.Owners.Live - s.Owners.Overdue, "overdue": s.Owners.Overdue, "left": s.Owners.Left, "dead": s.Owners.Dead,
	} {
		out.ObserveInt64(o.owners, n, with("fate", fate))
	}
	for _, t := range s.Tables {
		if t.Rows >= 0 {
			out.ObserveInt64(o.rows, t.Rows, with("table", t.Name))
		}
		out.ObserveInt64(o.bytes, t.Bytes, with("table", t.Name, "part", "table"))
		out.ObserveInt64(o.bytes, t.IndexBytes, with("table", t.Name, "part", "index"))
	}
	out.ObserveInt64(o.waits, s.LockWaits)
	out.ObserveFloat64(o.waited, s.LockWaited.Seconds())
	out.ObserveInt64(o.claims, s.Answered.Duplicates, with("answer", "done"))
	out.ObserveInt64(o.claims, s.Answered.Decided-s.Answered.Duplicates, with("answer", "other"))
	if !s.At.IsZero() {
		out.ObserveFloat64(o.passAge, s.Age.Seconds())
		out.ObserveFloat64(o.passTook, s.Pass.Took.Seconds())
		out.ObserveInt64(o.passRemoved, s.Pass.Removed())
	}
	return nil
}

func (o *observer) pool(out metric.Observer, s *ledger.PoolStats) {
	pool := with("pool", s.Name)
	out.ObserveInt64(o.poolUsed, s.InUse, pool)
	out.ObserveInt64(o.poolMax, s.Max, pool)
	out.ObserveInt64(o.poolWaits, s.Waits, with("pool", s.Name, "outcome", "served"))
	out.ObserveInt64(o.poolWaits, s.GaveUp, with("pool", s.Name, "outcome", "gave_up"))
	out.ObserveFloat64(o.poolWaited, s.Waited.Seconds(), pool)
}

func (o *observer) scope(out metric.Observer, s *ledger.ScopeStats) {
	for state, n := range map[string]int64{"pending": s.Pending, "succeeded": s.Succeeded, "failed": s.Failed} {
		out.ObserveInt64(o.messages, n, with("scope", s.Scope, "state", state))
	}
	out.ObserveInt64(o.abandoned, s.Abandoned, with("scope", s.Scope))
	out.ObserveFloat64(o.oldest, s.OldestPending.Seconds(), with("scope", s.Scope))
	out.ObserveFloat64(o.age, s.PendingAgeP95.Seconds(), with("scope", s.Scope, "quantile", "0.95"))
	out.ObserveFloat64(o.age, s.PendingAgeP99.Seconds(), with("scope", s.Scope, "quantile", "0.99"))
}

// with makes a measurement's attributes of names and values in turn.
func with(pairs ...string) metric.MeasurementOption {
	set := make([]attribute.KeyValue, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		set = append(set, attribute.String(pairs[i], pairs[i+1]))
	}
	return metric.WithAttributeSet(attribute.NewSet(set...))
}
