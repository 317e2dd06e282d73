package lambdasqs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"go.uber.org/zap"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/sqs"
)

// Defaults of Config.
const (
	DefaultLease     = 10 * time.Second
	DefaultMargin    = 5 * time.Second
	DefaultRetention = 4 * 24 * time.Hour
	DefaultWindow    = 28 * 24 * time.Hour
)

const (
	// minTime is the shortest rest of an invocation in which anything is begun.
	minTime = 500 * time.Millisecond
	// maxTime is what an invocation has that says nothing (Lambda quotas: a function's timeout is 15 min at most).
	maxTime = 15 * time.Minute
	// maxRetention is what SQS keeps messages for at most (SQS developer guide, "Amazon SQS message quotas").
	maxRetention = 14 * 24 * time.Hour
)

// Config is what a handler is built of, beside the ledger and the user's handler. The zero value of each field means its default.
//
// Options.Name is required. Options.Lease is by default 10 s, and never more than a third of what an invocation has left when it
// begins. Options.BackoffMax is by default 1 s, or BackoffBase if that is more: the queue's visibility timeout is the pause between
// attempts, and one that comes earlier costs a receive. Options.Window is by default 28 days, the longest retention of a queue and of
// its dead-letter queue together; a target of Options.DeadLetter that keeps messages for longer needs a longer one. Options.Drain,
// Grace, Breaker, MaxHeld, MaxHeldBytes and NoMaintenance are not used.
type Config struct {
	consumer.Options

	// Margin is how long before the invocation's deadline the handlers are cancelled, 100 ms to 5 min. Default 5 s, and never more
	// than a quarter of what the invocation has left when it begins. For people whose ledger or dead-letter target is slow.
	Margin time.Duration
	// Retention is the queue's MessageRetentionPeriod, 1 min to 14 days. Default 4 days, as SQS's. A message that fails is archived
	// instead of repeated if the queue would forget it before its next attempt. For people whose queue has another one.
	Retention time.Duration
	// FailWhole returns an error for an invocation of which anything is to be delivered again, instead of naming it. For people whose
	// event source mapping does not report batch item failures: all of the batch comes again, and what is done is acknowledged then
	// without a run.
	FailWhole bool
}

// Handler handles SQS events. Build it with [New], once, outside of the invocation.
type Handler struct {
	cfg     Config
	ledger  ledger.Ledger
	handler consumer.Handler

	mu      sync.Mutex
	targets map[string]error // what was asked of Options.DeadLetter, by the ARN of the queue; nil: it may go there
}

// New builds a handler. Nothing connects before the first event. It refuses a ledger whose Limits.Archive does not cover the
// largest message of SQS, and settings that are out of bounds, by name.
func New(l ledger.Ledger, h consumer.Handler, c *Config) (*Handler, error) {
	if engine.IsNil(l) {
		return nil, errors.New("lambdasqs: New: the ledger must not be nil")
	}
	if err := engine.CheckHandler(h); err != nil {
		return nil, fmt.Errorf("lambdasqs: New: %w", err)
	}
	cfg := *cmp.Or(c, &Config{})
	if cfg.Name == "" {
		return nil, errors.New("lambdasqs: Config.Name: must be 1 to 255 bytes, is empty: it is part of each message's identity")
	}
	cfg.Lease = cmp.Or(cfg.Lease, DefaultLease)
	cfg.BackoffMax = cmp.Or(cfg.BackoffMax, max(time.Second, cfg.BackoffBase))
	cfg.Window = cmp.Or(cfg.Window, DefaultWindow)
	cfg.Margin = cmp.Or(cfg.Margin, DefaultMargin)
	cfg.Retention = cmp.Or(cfg.Retention, DefaultRetention)
	cfg.Breaker = consumer.Breaker{Off: true}
	cfg.NoMaintenance = true
	cfg.MinConcurrency, cfg.Pressure = 0, nil // an invocation is over before it is known how many pay
	var err error
	if cfg.Options, err = cfg.WithDefaults(); err != nil {
		return nil, fmt.Errorf("lambdasqs: Config: %w", err)
	}
	if err := cmp.Or(
		inRange("Margin", cfg.Margin, 100*time.Millisecond, 5*time.Minute),
		inRange("Retention", cfg.Retention, time.Minute, maxRetention),
	); err != nil {
		return nil, err
	}
	if have := l.Limits().Archive; have < sqs.MaxMessage {
		return nil, fmt.Errorf("lambdasqs: New: the ledger must archive at least %d bytes of a failed message (Limits.Archive), its limit is %d",
			sqs.MaxMessage, have)
	}
	return &Handler{cfg: cfg, ledger: l, handler: h, targets: map[string]error{}}, nil
}

func inRange(field string, v, low, high time.Duration) error {
	if v < low || v > high {
		return fmt.Errorf("lambdasqs: Config.%s: must be %s to %s, is %s", field, low, high, v)
	}
	return nil
}

// Handle handles one event: it is what lambda.Start gets. The response names the messages that are to be delivered again, each once.
// ctx is the invocation's, with its deadline; one without has 15 min. Handlers see its values, as package lambdacontext's.
//
// An error says that nothing of the event may be acknowledged: a record is none of SQS, the invocation has less than 500 ms left, the
// ledger cannot be joined, or Options.DeadLetter is the queue itself. With Config.FailWhole it may also be a [*UnfinishedError].
// Handle may be called concurrently, as aws-lambda-go does where AWS_LAMBDA_MAX_CONCURRENCY is more than 1.
func (h *Handler) Handle(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
	if len(event.Records) == 0 {
		return respond(nil), nil
	}
	arn, err := check(event.Records)
	if err != nil {
		return events.SQSEventResponse{}, err
	}
	span, err := h.plan(ctx, time.Now())
	if err != nil {
		return events.SQSEventResponse{}, err
	}
	if err := h.checkTarget(ctx, arn, span.askBy); err != nil {
		return events.SQSEventResponse{}, err
	}
	inv := newInvocation(h, arn, span, event.Records)
	if err := inv.run(ctx); err != nil {
		return events.SQSEventResponse{}, err
	}
	again := inv.unfinished()
	if h.cfg.FailWhole && len(again) > 0 {
		return events.SQSEventResponse{}, &UnfinishedError{IDs: again, Of: len(event.Records)}
	}
	return respond(again), nil
}

// span is how an invocation's time is divided.
type span struct {
	askBy   time.Time // the dead letters' target must have answered
	joinBy  time.Time // the ledger must have answered
	stop    time.Time // handlers are cancelled
	end     time.Time // the response is due
	lease   time.Duration
	handler time.Duration // of one attempt
}

// plan divides what is left of an invocation.
func (h *Handler) plan(ctx context.Context, now time.Time) (span, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = now.Add(maxTime)
	}
	left := deadline.Sub(now)
	if left < minTime {
		return span{}, fmt.Errorf("lambdasqs: the invocation must have at least %s left, has %s", minTime, left)
	}
	margin := min(h.cfg.Margin, left/4)
	work := left - margin
	return span{
		askBy: now.Add(work / 4), joinBy: now.Add(work / 2), stop: now.Add(work), end: deadline.Add(-margin / 10),
		lease: max(min(h.cfg.Lease, left/3), 100*time.Millisecond), handler: min(h.cfg.HandlerTimeout, work-work/10),
	}, nil
}

// checkTarget asks, once for each queue, whether dead letters would come back to it. A target that cannot be asked is one that is
// asked again with the next event: the archive has the messages all the same.
func (h *Handler) checkTarget(ctx context.Context, arn string, by time.Time) error {
	h.mu.Lock()
	err, asked := h.targets[arn]
	h.mu.Unlock()
	if asked {
		return err
	}
	ctx, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	warning, err := engine.CheckTarget(ctx, &h.cfg.Options, arn)
	if warning != "" {
		h.cfg.Logger.Warn(warning, zap.String("source", arn))
		return nil
	}
	if err != nil {
		err = fmt.Errorf("lambdasqs: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.targets[arn] = err
	return err
}

// ErrNoLedger says that nothing of an event was handled, since the ledger could not be joined in time.
var ErrNoLedger = errors.New("the ledger must answer within half of the invocation's time, has not")
