package engine

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// instrumentation is the name of the instrumentation scope of all of ackledger's metrics and traces.
const instrumentation = "github.com/ackledger/ackledger"

// telemetry holds the instruments; docs/telemetry.md lists them for users.
type telemetry struct {
	attrs    metric.MeasurementOption
	base     []attribute.KeyValue
	record   []metric.RecordOption        // attrs
	outcomes sync.Map                     // outcome: []metric.RecordOption
	tracer   trace.Tracer                 // nil: the global provider's
	global   atomic.Pointer[trace.Tracer] // of the global provider, once there is one
	name     string
	answers  map[ledger.Answer]metric.MeasurementOption
	results  [len(dedupResults)]metric.MeasurementOption // by the order of dedupResults

	counters
	durations
	sums   sums
	gauges metric.Registration
}

type counters struct {
	claims, dedups, takeovers, lost, retries, dead, letters, unknowns, refusals, skips, forged metric.Int64Counter
}

// sums are counted once more, for the worker's reports.
type sums struct{ failed, retried, hits atomic.Int64 }

type durations struct{ handler, claim, settle, endToEnd metric.Float64Histogram }

// Meter returns who makes a worker's instruments, and the attributes that all of its measurements have.
func Meter(o *consumer.Options, system, source string) (metric.Meter, []attribute.KeyValue) {
	mp := o.MeterProvider
	if mp == nil {
		mp = otel.GetMeterProvider()
	}
	return mp.Meter(instrumentation), []attribute.KeyValue{
		attribute.String("messaging.system", system),
		attribute.String("messaging.destination.name", source),
		attribute.String("messaging.consumer.group.name", o.Name),
	}
}

func newTelemetry(cfg *Config) (*telemetry, metric.Meter, error) {
	m, base := Meter(&cfg.Options, cfg.System, cfg.Source)
	t := &telemetry{
		attrs: metric.WithAttributeSet(attribute.NewSet(base...)), base: base,
		name: "process " + cfg.Source, answers: map[ledger.Answer]metric.MeasurementOption{},
	}
	t.record = []metric.RecordOption{t.attrs}
	if tp := cfg.Options.TracerProvider; tp != nil {
		t.tracer = tp.Tracer(instrumentation)
	}
	for a := ledger.Busy; a <= ledger.InCare; a++ {
		t.answers[a] = metric.WithAttributeSet(attribute.NewSet(append(base, attribute.String("answer", a.String()))...))
	}
	for i, result := range dedupResults {
		t.results[i] = metric.WithAttributeSet(attribute.NewSet(append(base, attribute.String("result", result))...))
	}
	if err := t.instruments(m); err != nil {
		return nil, nil, err
	}
	t.announce(cfg.Options.DeadLetter != nil)
	return t, m, nil
}

func (t *telemetry) instruments(m metric.Meter) error {
	var failed error
	counter := func(name, text string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithDescription(text))
		failed = errors.Join(failed, err)
		return c
	}
	histogram := func(name, text string) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(text))
		failed = errors.Join(failed, err)
		return h
	}
	t.claims = counter("ackledger.claims", "Answers of the ledger, by answer: run, done, busy, spent, mismatch.")
	t.dedups = counter("ackledger.dedup", "What deliveries were, by result: miss, hit, timeout.")
	t.takeovers = counter("ackledger.takeovers", "Messages taken over from an owner that died or left.")
	t.lost = counter("ackledger.leases.lost", "Leases of this worker that were lost.")
	t.retries = counter("ackledger.retries", "Attempts that failed and will be repeated.")
	t.dead = counter("ackledger.dead_letters", "Messages that failed for good, by kind.")
	t.letters = counter("ackledger.dead_letters.forwarded", "Messages that were to go to the dead-letter target, by outcome.")
	t.unknowns = counter("ackledger.settles.unknown", "Settlements whose answer was lost and that were repeated.")
	t.refusals = counter("ackledger.settles.refused", "Settlements that could not be made as they were, by reason: too_large, invalid.")
	t.skips = counter("ackledger.skipped", "Copies stamped for another group, acknowledged unhandled.")
	t.forged = counter("ackledger.stamps.refused", "Copies whose stamp was refused, and that are messages of their own.")
	t.handler = histogram("ackledger.handler.duration", "Time in the handler, by outcome.")
	t.claim = histogram("ackledger.claim.duration", "Time of one Claim call.")
	t.settle = histogram("ackledger.settle.duration", "Time of one Settle call.")
	t.endToEnd = histogram("ackledger.end_to_end.duration", "From the broker's timestamp to the acknowledgement.")
	return failed
}

// announce says zero of what is counted, once: a series that begins with its first event has no rate and no increase at that
// event (Prometheus' documentation, "Instrumentation": avoid missing metrics).
func (t *telemetry) announce(forwards bool) {
	ctx := context.Background()
	for _, c := range []metric.Int64Counter{t.takeovers, t.lost, t.retries, t.unknowns, t.skips, t.forged} {
		c.Add(ctx, 0, t.attrs)
	}
	for _, answer := range t.answers {
		t.claims.Add(ctx, 0, answer)
	}
	for _, result := range t.results {
		t.dedups.Add(ctx, 0, result)
	}
	for _, kind := range []ledger.FailureKind{
		ledger.KindError, ledger.KindPanic, ledger.KindGoexit, ledger.KindTimeout, ledger.KindTerminal, ledger.KindExhausted,
		ledger.KindUncertain, ledger.KindMismatch, ledger.KindInvalid, ledger.KindDeadline,
	} {
		t.failed(0, kind)
	}
	t.refused(0, refusedLarge)
	t.refused(0, refusedAsIs)
	if forwards {
		t.published(0, true)
		t.published(0, false)
	}
}

func (t *telemetry) close() { _ = t.gauges.Unregister() } // an error means that it is gone already

// answered counts the answers of one call.
func (t *telemetry) answered(claims []ledger.Claim) {
	var counts [ledger.InCare + 1]int64
	took := int64(0)
	for i := range claims {
		counts[claims[i].Answer]++
		if claims[i].TookOver {
			took++
		}
	}
	for a, n := range counts {
		if n > 0 {
			t.claims.Add(context.Background(), n, t.answers[ledger.Answer(a)])
		}
	}
	if took > 0 {
		t.takeovers.Add(context.Background(), took, t.attrs)
	}
}

// ran counts messages that were claimed together.
func (t *telemetry) ran(n int64) {
	if n > 0 {
		t.claims.Add(context.Background(), n, t.answers[ledger.Run])
	}
}

// dedupResults are the values of the attribute, in the order of flow.Counted's fields.
var dedupResults = [...]string{"miss", "hit", "timeout"}

func (t *telemetry) deduplicated(c flow.Counted) {
	t.sums.hits.Add(c.Hits)
	for i, n := range [...]int64{c.Misses, c.Hits, c.Timeouts} {
		if n > 0 {
			t.dedups.Add(context.Background(), n, t.results[i])
		}
	}
}

func (t *telemetry) skipped(n int64)      { t.skips.Add(context.Background(), n, t.attrs) }
func (t *telemetry) forgedStamps(n int64) { t.forged.Add(context.Background(), n, t.attrs) }
func (t *telemetry) leaseLost()           { t.lost.Add(context.Background(), 1, t.attrs) }
func (t *telemetry) unknown(n int)        { t.unknowns.Add(context.Background(), int64(n), t.attrs) }

func (t *telemetry) retried() {
	t.sums.retried.Add(1)
	t.retries.Add(context.Background(), 1, t.attrs)
}

// Why a settlement is refused.
const (
	refusedLarge = "too_large" // it was made without the message's body
	refusedAsIs  = "invalid"   // by the ledger or the cipher: it is kept, and repeated
)

func (t *telemetry) refused(n int64, reason string) {
	t.refusals.Add(context.Background(), n, t.attrs, metric.WithAttributes(attribute.String("reason", reason)))
}

// published counts what came of forwarding messages.
func (t *telemetry) published(n int64, sent bool) {
	outcome := map[bool]string{true: "sent", false: "unsent"}[sent]
	t.letters.Add(context.Background(), n, t.attrs, metric.WithAttributes(attribute.String("outcome", outcome)))
}

func (t *telemetry) failed(n int64, kind ledger.FailureKind) {
	t.sums.failed.Add(n)
	t.dead.Add(context.Background(), n, t.attrs, metric.WithAttributes(attribute.String("kind", string(kind))))
}

// acked records the whole way of a message, as far as its timestamp makes sense: producers can set it.
func (t *telemetry) acked(it *Item) {
	if !t.endToEnd.Enabled(context.Background()) {
		return
	}
	t.delivered(it.Msg.SentAt)
}

func (t *telemetry) delivered(sent time.Time) {
	if d := time.Since(sent); d >= 0 && d < 365*24*time.Hour {
		t.endToEnd.Record(context.Background(), d.Seconds(), t.record...)
	}
}

// ackedStretch is acked for all that is left of a stretch.
func (t *telemetry) ackedStretch(st *Stretch) {
	if !t.endToEnd.Enabled(context.Background()) {
		return
	}
	for i := range st.Len {
		t.delivered(st.Records.SentAt(i))
	}
}

func (t *telemetry) handled(r *run, o outcome) {
	if !t.handler.Enabled(context.Background()) {
		return
	}
	result := ledger.FailureKind("ok")
	if o.err != nil {
		result = o.kind
	}
	if _, put := consumer.SnoozeDelay(o.err); put {
		result = "snoozed"
	}
	options, ok := t.outcomes.Load(result)
	if !ok {
		set := attribute.NewSet(append(slices.Clone(t.base), attribute.String("outcome", string(result)))...)
		options, _ = t.outcomes.LoadOrStore(result, []metric.RecordOption{metric.WithAttributeSet(set)})
	}
	t.handler.Record(context.Background(), (r.of.now() - r.began).Seconds(), options.([]metric.RecordOption)...)
}

// headerCarrier reads traceparent and tracestate from a message's headers.
type headerCarrier struct{ m *consumer.Message }

func (c headerCarrier) Get(key string) string {
	v, _ := c.m.Header(key)
	return string(v)
}
func (c headerCarrier) Set(string, string) {}
func (c headerCarrier) Keys() []string {
	keys := make([]string, 0, len(c.m.Headers))
	for _, h := range c.m.Headers {
		keys = append(keys, h.Name)
	}
	return keys
}

// tracing returns who makes spans; nil: nobody does, as long as a program without OpenTelemetry's SDK sets no provider.
func (t *telemetry) tracing() trace.Tracer {
	if t.tracer != nil {
		return t.tracer
	}
	if tracer := t.global.Load(); tracer != nil {
		return *tracer
	}
	tp := otel.GetTracerProvider()
	if typ := reflect.TypeOf(tp); typ.Kind() == reflect.Pointer && typ.Elem().PkgPath() == placeholder {
		return nil
	}
	tracer := tp.Tracer(instrumentation)
	t.global.Store(&tracer)
	return tracer
}

// placeholder is the package of the global provider's type before a program sets one.
const placeholder = "go.opentelemetry.io/otel/internal/global"

// span begins the handler's span as a child of the one that the message names (W3C Trace Context).
func (t *telemetry) span(r *run) (context.Context, trace.Span) {
	ctx, tracer := context.Context(r), t.tracing()
	if _, ok := r.msg.Header("traceparent"); ok {
		ctx = propagation.TraceContext{}.Extract(ctx, headerCarrier{r.msg})
	}
	if tracer == nil {
		return ctx, nil
	}
	ctx, span := tracer.Start(ctx, t.name, trace.WithSpanKind(trace.SpanKindConsumer))
	if span.IsRecording() {
		span.SetAttributes(attribute.String("messaging.message.id", r.msg.ID), attribute.Int("ackledger.attempt", r.msg.Attempt))
	}
	return ctx, span
}

// batchSpan begins the span of a batch, with a link to the span that each message names.
func (t *telemetry) batchSpan(lead *run, batch []*consumer.Message) (context.Context, trace.Span) {
	tracer := t.tracing()
	if tracer == nil {
		return lead, nil
	}
	var links []trace.Link
	for _, m := range batch {
		from := propagation.TraceContext{}.Extract(context.Background(), headerCarrier{m})
		if c := trace.SpanContextFromContext(from); c.IsValid() && len(links) < maxLinks {
			links = append(links, trace.Link{SpanContext: c})
		}
	}
	return tracer.Start(lead, t.name, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(links...),
		trace.WithAttributes(attribute.Int("messaging.batch.message_count", len(batch))))
}

// maxLinks is how many links a span keeps by default (OpenTelemetry's span limits).
const maxLinks = 128

func (t *telemetry) endSpan(span trace.Span, err error) {
	if span == nil {
		return
	}
	if _, put := consumer.SnoozeDelay(err); err != nil && !put && span.IsRecording() {
		span.RecordError(err)
		span.SetStatus(codes.Error, "handler failed")
	}
	span.End()
}
