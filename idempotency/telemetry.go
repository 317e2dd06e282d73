package idempotency

import (
	"context"
	"errors"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
)

// telemetry counts how requests are answered; docs/telemetry.md lists it for users.
type telemetry struct {
	requests metric.Int64Counter
	filtered metric.Int64Counter
	base     []attribute.KeyValue
}

// What requests are counted as.
const (
	miss           = "miss"            // its function ran
	hit            = "hit"             // it got what was stored
	conflict       = "conflict"        // its key is known with another body
	inProgress     = "in_progress"     // it was refused beside another that runs
	pendingTimeout = "pending_timeout" // it waited in vain for another that runs
	full           = "full"            // as many wait as may, or its turn did not come
	unavailable    = "unavailable"     // the ledger did not answer, or the runner is paused
	otherwise      = "other"           // its key was none, its caller was gone before it began, its processes crashed, or its end is not known
)

func newTelemetry(o *consumer.Options, source string) (telemetry, error) {
	m, base := engine.Meter(o, "idempotency", source)
	requests, err := m.Int64Counter("ackledger.idempotency.requests", metric.WithDescription("Requests, by how they were answered."))
	if err != nil {
		return telemetry{}, err
	}
	filtered, err := m.Int64Counter("ackledger.idempotency.filter", metric.WithDescription("Requests that were read before a claim, or of which Options.Filter was asked, by what came of it."))
	if err != nil {
		return telemetry{}, err
	}
	t := telemetry{requests: requests, filtered: filtered, base: base}
	for _, result := range []string{miss, hit, conflict, inProgress, pendingTimeout, full, unavailable, otherwise} {
		t.add(0, attribute.String("result", result)) // a series that begins with its first event has no growth at that event
	}
	return t, nil
}

func (t *telemetry) add(n int64, attrs ...attribute.KeyValue) {
	t.requests.Add(context.Background(), n, t.with(attrs...))
}

// with is attributes beside those of the runner.
func (t *telemetry) with(attrs ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(append(attrs, t.base...)...))
}

// answered counts a request. What is replayed counts by its status, and what waited for another by that.
func (t *telemetry) answered(out *Outcome, err error, waited bool) {
	result := resultOf(out, err)
	attrs := []attribute.KeyValue{attribute.String("result", result), attribute.Bool("waited", waited)}
	if result == hit {
		attrs = append(attrs, attribute.String("status", strconv.Itoa(out.Result.Status)))
	}
	t.add(1, attrs...)
}

func resultOf(out *Outcome, err error) string {
	_, refused := errors.AsType[*InProgressError](err)
	switch {
	case out.Replayed:
		return hit
	case out.Attempt > 0 || err == nil: // without either it panicked
		return miss
	case errors.Is(err, ErrMismatch):
		return conflict
	case refused:
		return inProgress
	case errors.Is(err, ErrWaited):
		return pendingTimeout
	case errors.Is(err, ErrFull), errors.Is(err, ErrNoTurn):
		return full
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrPaused):
		return unavailable
	}
	return otherwise
}
