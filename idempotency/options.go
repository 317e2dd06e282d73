package idempotency

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

// Defaults of Options.
const (
	DefaultConcurrency = 1000
	DefaultWaiting     = 10_000
	DefaultWait        = 10 * time.Second
	DefaultWindow      = 24 * time.Hour
	DefaultAudit       = 7 * 24 * time.Hour
	DefaultTimeout     = time.Minute
)

// Options are a runner's settings. The zero value of each field means its default.
type Options struct {
	// Name names the runner in logs and metrics. Default "idempotency". For people with several in a process.
	Name string
	// Concurrency is how many functions run at once, 1 to 10,000. Default 1,000. For people whose functions wait for others, or must
	// not run beside many.
	Concurrency int
	// Waiting is how many requests may wait or run at once, Concurrency to 1,000,000. Default 10,000; one more gets [ErrFull]. For
	// people with little memory.
	Waiting int
	// Attempts is how often a request may fail before it fails for good, 1 to 1,000. Default 10. For people whose callers repeat for
	// long, or who want to look at failures sooner (1: the first error is final).
	Attempts int
	// RerunFailed runs a request again that has failed for good, also one that was done and whose result could not be kept (a
	// [*TooLargeError]). Default: a repetition gets the stored error. For people whose callers are to try anew under the same key.
	RerunFailed bool
	// Refuse has a duplicate of what is in progress refused at once, with an [*InProgressError]. Default: it waits. For people whose
	// callers come again by themselves.
	Refuse bool
	// Wait is how long such a duplicate waits at most, 1 ms to 1 h. Default 10 s; then it gets [ErrWaited]. So long any request waits for
	// its turn; then it gets [ErrNoTurn]. For people whose functions take longer, or whose callers wait less.
	Wait time.Duration
	// Window is how long a request is recognised that says nothing else, 1 s to 100 years. Default 24 h, as Stripe does
	// (docs.stripe.com/api/idempotent_requests). For people whose callers repeat for longer.
	Window time.Duration
	// Audit is how long an answer can still be looked up ([Runner.Audit], ackledger show) when its request is recognised no more and
	// its row is gone, 1 s to 100 years. Default 7 days, on a ledger that is a [ledger.PastKeeper], as those of this module are. It holds
	// for the scopes of this runner's requests; of several runners with one scope, the one that began last says it for all. For people
	// who are asked later what was answered, or who must not keep it.
	Audit time.Duration
	// NoAudit has answers go with their requests' rows. Default: they are kept for Audit.
	NoAudit bool
	// Keep is how long the archive keeps what failed for good. Default 90 days, or Window where that is longer. For people who look into
	// failures later.
	Keep time.Duration
	// Timeout is how long one function may take until its context ends, 1 ms to 11 h. Default 1 min. For people whose work takes longer.
	Timeout time.Duration
	// Lease is how long the requests of a process that died without a word stay closed to others, 100 ms to 1 h. Default 30 s. For
	// people who prefer fast take-overs to few beats.
	Lease time.Duration
	// Drain is how long Run waits for functions after its context was cancelled. Default 25 s. For people whose platform gives
	// more time to end, or less.
	Drain time.Duration
	// CheckKey says what a key may be. Default [CheckKey]. For people whose callers' keys are of one form, such as UUIDs.
	CheckKey func(key string) error
	// Cipher seals stored results, and those of steps. Default: none. For people whose database must not show their answers.
	Cipher ledger.Cipher
	// Spill keeps what is larger than the ledger's limit. Default: none; that is refused, with a [*TooLargeError]. For people whose answers
	// are large.
	Spill Spill
	// SpillLimit is how many bytes it keeps of a result, as it is stored, 1 to 1 GiB. Default 4 MiB. For people with larger answers, and the
	// memory for Concurrency of them.
	SpillLimit int
	// Filter guesses which requests are repetitions, so that a success is read before it is claimed. Default: all are, while most of the
	// last ones were. For people whose callers repeat much among many new requests, on a ledger that is a [ledger.SuccessReader], as
	// those of this module are.
	Filter Filter
	// FilterLimit is how long the filter may take for one request, 1 ms to 1 s. Default 5 ms. For people whose filter is far away.
	FilterLimit time.Duration
	// NoMaintenance leaves the ledger's tables to others, as that of consumer.Options.
	NoMaintenance bool

	// Logger receives what operators need to know; keys are ids there, bodies and results never. Default: none.
	Logger *zap.Logger
	// MeterProvider and TracerProvider are OpenTelemetry's. Default: the global ones.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
}

// withDefaults fills in the defaults, and makes what the engine is built of.
func (o Options) withDefaults() (Options, consumer.Options, error) {
	o.Name = cmp.Or(o.Name, "idempotency")
	o.Concurrency = cmp.Or(o.Concurrency, DefaultConcurrency)
	o.Waiting = cmp.Or(o.Waiting, max(DefaultWaiting, o.Concurrency))
	o.Wait = cmp.Or(o.Wait, DefaultWait)
	o.SpillLimit = cmp.Or(o.SpillLimit, DefaultSpillLimit)
	o.FilterLimit = cmp.Or(o.FilterLimit, DefaultFilterLimit)
	o.Window = cmp.Or(o.Window, DefaultWindow)
	o.Keep = cmp.Or(o.Keep, max(consumer.DefaultKeep, o.Window))
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.CheckKey == nil {
		o.CheckKey = CheckKey
	}
	switch {
	case o.Waiting < o.Concurrency || o.Waiting > 1_000_000:
		return o, consumer.Options{}, fmt.Errorf("idempotency: Options.Waiting: must be Concurrency (%d) to 1000000, is %d", o.Concurrency, o.Waiting)
	case o.Wait < time.Millisecond || o.Wait > time.Hour:
		return o, consumer.Options{}, fmt.Errorf("idempotency: Options.Wait: must be 1ms to 1h, is %s", o.Wait)
	case o.Window < time.Second:
		return o, consumer.Options{}, fmt.Errorf("idempotency: Options.Window: must be at least 1s, is %s", o.Window)
	case o.Audit != 0 && (o.Audit < time.Second || o.Audit > ledger.MaxWindow):
		return o, consumer.Options{}, fmt.Errorf("idempotency: Options.Audit: must be 1s to %s, is %s", ledger.MaxWindow, o.Audit)
	case o.Audit != 0 && o.NoAudit:
		return o, consumer.Options{}, errors.New("idempotency: Options.Audit: must not be set with NoAudit: nothing is kept")
	case o.SpillLimit < 1 || o.SpillLimit > maxSpillLimit:
		return o, consumer.Options{}, fmt.Errorf("idempotency: Options.SpillLimit: must be 1 to %d bytes, is %d", maxSpillLimit, o.SpillLimit)
	case o.FilterLimit < time.Millisecond || o.FilterLimit > time.Second:
		return o, consumer.Options{}, fmt.Errorf("idempotency: Options.FilterLimit: must be 1ms to 1s, is %s", o.FilterLimit)
	case o.Refuse && o.Wait != DefaultWait:
		return o, consumer.Options{}, errors.New("idempotency: Options.Wait: must not be set with Refuse: nobody waits")
	}
	c, err := consumer.Options{
		Name: o.Name, Concurrency: o.Concurrency, Attempts: o.Attempts, BackoffBase: time.Millisecond, BackoffMax: time.Millisecond,
		HandlerTimeout: cmp.Or(o.Timeout, DefaultTimeout), Lease: o.Lease, Drain: o.Drain, Window: o.Window, Keep: o.Keep,
		Breaker: consumer.Breaker{Off: true}, NoMaintenance: o.NoMaintenance, MaxHeld: o.Waiting, MaxHeldBytes: 64 << 30,
		Logger: o.Logger, MeterProvider: o.MeterProvider, TracerProvider: o.TracerProvider,
	}.WithDefaults()
	if err != nil {
		return o, c, fmt.Errorf("idempotency: %w", err)
	}
	c.KeepFailed = !o.RerunFailed
	return o, c, nil
}
