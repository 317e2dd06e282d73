package sqs

import (
	"context"
	"errors"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/visibility"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// telemetry counts what only SQS has; the engine counts the rest.
type telemetry struct {
	attrs          metric.MeasurementOption
	polled         metric.Int64Counter
	changes        metric.Int64Counter
	failedDeletes  metric.Int64Counter
	pollOutcomes   map[string]metric.MeasurementOption
	changeOutcomes [visibility.Refused + 1]metric.MeasurementOption
}

func newTelemetry(s *settings, source string) (*telemetry, error) {
	m, attrs := engine.Meter(&s.Options, "sqs", source)
	t := &telemetry{
		attrs:        metric.WithAttributes(attrs...),
		pollOutcomes: map[string]metric.MeasurementOption{},
	}
	for _, o := range []string{"messages", "empty", "error", "over_limit"} {
		t.pollOutcomes[o] = metric.WithAttributes(attribute.String("outcome", o))
	}
	for o, name := range map[visibility.Outcome]string{visibility.Changed: "changed", visibility.Unknown: "failed", visibility.Failed: "failed", visibility.Refused: "expired"} {
		t.changeOutcomes[o] = metric.WithAttributes(attribute.String("outcome", name))
	}
	var errs [3]error
	t.polled, errs[0] = m.Int64Counter("ackledger.sqs.polls", metric.WithDescription("Polls, by outcome."))
	t.changes, errs[1] = m.Int64Counter("ackledger.sqs.visibility_changes",
		metric.WithDescription("Messages whose visibility was extended or set, by outcome."))
	t.failedDeletes, errs[2] = m.Int64Counter("ackledger.sqs.delete_failures",
		metric.WithDescription("Deletes that failed; each is sent again, or answered by the ledger at the redelivery."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	t.announce()
	return t, nil
}

// announce says zero once, as the engine does of its counters: then their first event is a growth.
func (t *telemetry) announce() {
	ctx := context.Background()
	for _, o := range t.pollOutcomes {
		t.polled.Add(ctx, 0, t.attrs, o)
	}
	for _, o := range t.changeOutcomes {
		t.changes.Add(ctx, 0, t.attrs, o)
	}
	t.failedDeletes.Add(ctx, 0, t.attrs)
}

func (t *telemetry) poll(outcome string) {
	t.polled.Add(context.Background(), 1, t.attrs, t.pollOutcomes[outcome])
}

func (t *telemetry) visibility(counts [visibility.Refused + 1]int64) {
	for o, n := range counts {
		if n > 0 {
			t.changes.Add(context.Background(), n, t.attrs, t.changeOutcomes[o])
		}
	}
}

func (t *telemetry) deleteFailures(n int) {
	t.failedDeletes.Add(context.Background(), int64(n), t.attrs)
}
