package consumer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ackledger/ackledger/ledger"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
)

// Defaults of Options; docs/defaults.md says why.
const (
	DefaultConcurrency    = 16
	DefaultAttempts       = 10
	DefaultLease          = 30 * time.Second
	DefaultDrain          = 25 * time.Second
	DefaultGrace          = 30 * time.Second
	DefaultBackoffBase    = time.Second
	DefaultBackoffMax     = 15 * time.Minute
	DefaultHandlerTimeout = time.Hour
	DefaultSlowAfter      = 5 * time.Minute
	DefaultClaimAhead     = 4000
	DefaultMaxHeld        = 20_000
	DefaultMaxHeldBytes   = 64 << 20
	DefaultKeep           = 90 * 24 * time.Hour
	DefaultParkAfter      = time.Minute
	DefaultParkedMost     = 100_000
	DefaultParkedBytes    = 1 << 30

	DefaultBreakerFailures = 100
	DefaultBreakerPercent  = 50

	DefaultDeadLetterTries   = 5
	DefaultDeadLetterTimeout = 5 * time.Second
)

// Options are the settings that every worker has, whatever its broker. The zero value of each field means its default.
type Options struct {
	// Name is the consumer's name, part of the identity of all its messages: for people with several consumers of one
	// queue. Required for SQS; for Kafka it is the group, and must be empty or equal to it.
	Name string

	// Concurrency is how many handlers run at once, 1 to 10,000. Default 16. For people whose handlers wait for others.
	Concurrency int
	// MinConcurrency makes Concurrency the most: between the two as many handlers run as pays, by how long they take and how often they fail
	// (the gradient of Netflix's concurrency-limits; docs/adaptive.md). 1 to Concurrency; 0, the default: Concurrency, always. For people
	// whose downstream has a capacity that they do not know, or that changes. Not with Park, for which what waits must not be claimed.
	//
	// While more than half of the attempts fail with an error or a timeout, Terminal ones and panics apart, attempts that fail so do not
	// count, and where MinConcurrency is reached, handlers start after pauses of up to 5 s: for an hour at most.
	MinConcurrency int
	// Pressure is asked once a second how loaded something is that handlers use, from 0 (idle) to 1 (full): above 0.8 fewer run, at 1 half as
	// many each second, down to MinConcurrency, with which alone it may be set. It must not block; one that panics says nothing. For people
	// who know of a load that no handler feels: memory, the lag of a replica, a signal of the downstream's.
	Pressure func() float64
	// Limiter is shared between workers to limit the handlers of all of them together. Default: none. For people with
	// many queues and one scarce resource; of [Slots], for people with queues of which some matter more.
	Limiter *Limiter
	// Rate is how many handlers start in a second at most, 0.001 to 1,000,000; 0: no limit. For people whose downstream has a quota.
	Rate float64

	// Attempts is how often a message's handler may fail before the message fails for good, 1 to 1,000. Default 10.
	// For people whose downstream is often away for longer (more), or whose failures do not heal (fewer).
	Attempts int
	// BackoffBase and BackoffMax bound the delay before the next attempt: full jitter below BackoffBase, doubling up to
	// BackoffMax. Defaults 1 s and 15 min; at most 12 h. For people whose downstream recovers faster or slower.
	BackoffBase, BackoffMax time.Duration
	// HandlerTimeout is how long one attempt may take until its context is cancelled. Default 1 h; at most 11 h. For
	// people whose work takes longer, or who want to notice earlier.
	HandlerTimeout time.Duration
	// SlowAfter is how long an attempt takes until Health reports it as stalled. Default 5 min. For people whose
	// handlers take long by nature, or who want to be told sooner.
	SlowAfter time.Duration

	// Lease is how long the messages of a worker that died without a word stay closed to others, 100 ms to 1 h. Default
	// 30 s; it is extended every third of it. For tests, and for people who prefer a slow take-over to frequent beats.
	Lease time.Duration
	// Drain is how long Run waits, after its context was cancelled, for the handlers that run. Default 25 s, inside of
	// Kubernetes' 30 s. What still runs then is left to the next owner and counts no attempt. For people whose platform
	// gives a process more time to end, or less.
	Drain time.Duration
	// Grace is how long the platform gives the process to end before it kills it, 1 s to 24 h. Default 30 s, that of
	// Kubernetes (terminationGracePeriodSeconds). Nothing waits for it: Health warns of a Drain that does not fit into it.
	// For people whose platform gives more time, or less.
	Grace time.Duration

	// Park is for handlers whose outside effect must not be repeated blindly: a message whose attempt was cut short by a
	// crash is not run again but archived as uncertain, and messages are claimed only when they start at once. So is, now and
	// then, one whose retry had not begun: the ledger's answer was lost. Another delivery of a message that is archived so (a
	// redrive, or a second one with the same KeyFunc) runs it. Not with Rate or Limiter, for which a message waits that is
	// claimed already: what would be left behind by a crash then has not begun.
	Park bool
	// KeyFunc derives the message's identity from the message itself, 1 to 1,024 bytes: for people whose producers send
	// one business event more than once. Default: the broker's identity. A message whose KeyFunc fails is archived: it
	// returns an error, panics, ends its goroutine (runtime.Goexit, testing.T.FailNow), or has not returned within a minute;
	// its goroutine is then left behind until it does. Polling waits for it, and a shutdown too, so it must not block: it
	// should look at the message alone. It gets a copy; what it changes in that, no handler sees.
	KeyFunc func(*Message) (string, error)
	// KeepFailed keeps a message that failed for good from being run for another delivery of it that carries no stamp: it is
	// acknowledged as a duplicate. Only with KeyFunc, whose messages a producer may send more than once; a redrive by a stamp and
	// a reopened message run all the same. Default: another delivery runs. For people whose producers send a business event
	// again without knowing what came of it, and whose failures are looked into before they are repeated.
	KeepFailed bool
	// FingerprintFunc returns the bytes of the message that must be equal for two copies to be the same message, for
	// people whose producers re-encode (time stamps, field order). Default: the body. It must not block, gets a copy, and
	// may fail, as KeyFunc.
	FingerprintFunc func(*Message) ([]byte, error)

	// FairShare is how many messages of one tenant are in flight at most in this process (claimed, handled or settled), 1 to
	// 1,000,000: for people whose queue many tenants fill, of whom none is to wait for the backlog of another. With half of
	// Concurrency or less a tenant of any load leaves handlers free for the others. Default: no bound; with FairBy or FairWeights:
	// twice Concurrency (of batches: times their size), which is as many as are in flight then of all tenants together.
	//
	// What waits is in hand (MaxHeld). On SQS it stays hidden, and counts as in flight for SQS's own fair queues; on Kafka it holds up its
	// partition or its key, as far as Order says, and records are claimed one by one, which costs the speed of ranges.
	FairShare int
	// FairBy says whose a message is: for people whose tenants the broker does not know. Default: SQS's MessageGroupId, by which its fair
	// queues tell tenants apart; required on Kafka. Of what is in hand tenants get handlers in turns, however many messages each has. A
	// message of "" is nobody's, and neither waits for a turn nor counts; so is one for which FairBy fails as a KeyFunc may. It gets a
	// copy, and must not block.
	FairBy func(*Message) string
	// FairWeights says how many messages of a tenant come in its turn, 1 to 1,000 for each, at most 10,000 tenants. Default: 1. For
	// people some of whose tenants pay for more.
	FairWeights map[string]int

	// Limit says of which key a message is, and how many messages of that key may be in flight (claimed, handled or settled) at most, of all
	// workers of the ledger together, 1 to [MaxLimit]: for people with a resource that bears so many at once, whatever the number of
	// processes. Keys of at most [MaxLimitKey] bytes are the ledger's, not the consumer's: two consumers that say the same key share it. If they
	// say different numbers, the largest counts of those that workers have in hand. In a worker the newest message of a key counts: a lower number takes
	// hold with it, also for those that wait, once what is in flight is settled. A message of "" has no limit. Default: none has. One for
	// which Limit fails, as a KeyFunc may, or says what is out of bounds, is archived. Limit gets a copy, and must not block.
	//
	// A worker holds a permit for each, a row of the ledger, as long as its lease; so a worker that dies has its permits until it is declared
	// dead. The handlers of a worker that loses its lease are cancelled, and others may run at once: what such a handler still does outside of
	// InTx is beyond the limit. Who waits for a permit asks for one a few times a second. Records are claimed one by one, which costs the
	// speed of Kafka's ranges.
	Limit func(*Message) (key string, most int)

	// Stamps says whose stamps name a message that another record or message is a copy of ([Stamp]). Default: those of
	// everybody who may produce to the source. For people whose producers are not trusted with each other's messages.
	Stamps Stamps

	// Window is how long a finished message is recognised. Default: what the broker may still deliver, and what may come
	// again from where DeadLetter sends it, read from the brokers. For people whose producers send again after that, or
	// whose broker does not tell. AllowShortWindow accepts one that is shorter: for people who know that nothing is
	// delivered later, or whose topics keep records for ever.
	Window           time.Duration
	AllowShortWindow bool
	// Keep is how long the archive keeps a failed delivery. Default 90 days; not below Window. For people who look into
	// failures later than that, or must not keep bodies for so long.
	Keep time.Duration
	// NoMaintenance leaves the ledger's tables to others. By default the worker sweeps out what has expired (one process
	// at a time does, whatever their number). For people who run [Maintenance] or `ackledger maintain` in a process of its
	// own, or whose workers may not remove rows.
	NoMaintenance bool

	// Breaker stops the worker while most of what it handles fails for good. Default: when more than 100 messages, and more
	// than half of those that came to their end, do within a minute. For people whose messages mostly fail by design.
	Breaker Breaker

	// ArchiveBudget is how many bytes ([ledger.Archive.Weight]) of one scope may be archived, 1 MiB to 1 PiB; 0: any number. While
	// there are as many, the worker starts no handler and polls nothing; Health is not ready and says why, and so do the log and
	// the metrics ackledger.archive.bytes and ackledger.archive.budget. Nothing is lost, and what runs then is archived all the
	// same; what waits at the broker waits no longer than the broker keeps it. The worker goes on by itself once there is room:
	// after a purge, or when Keep is over. For people whose ledger shares a database with what must not run out of room.
	//
	// It is an estimate: what the ledger says every 10 s (less often if asking takes more than half a second), and what this
	// process archived since or is about to archive. So the budget may be exceeded by what the other processes archive within
	// that time, by what runs at that moment, and by what a Cipher adds: leave room for them. A worker of several topics pauses as
	// a whole when one is full.
	ArchiveBudget int64

	// DeadLetter forwards messages that failed for good, for people who watch a dead-letter queue or topic, or whose other
	// tools read one. Default: none, the ledger's archive has them. A target that is away delays no other message, and
	// neither readiness nor a shutdown waits for it.
	DeadLetter DeadLetterer
	// DeadLetterTries is how often one dead letter is tried to be published, 1 to 100, with a backoff of 200 ms doubling
	// up to 5 s between. Default 5. Then the archive alone has the message, marked as not sent; and as long as the target
	// is away, each message is tried once. For people whose target is often away for longer.
	DeadLetterTries int
	// DeadLetterTimeout is how long one try may take, 100 ms to 1 min. Default 5 s. For people whose target is slow.
	DeadLetterTimeout time.Duration

	// Relay sends what handlers publish inside of InTx ([Publish]), of this worker and of any other on the same ledger. Default: none, what is
	// published waits for a worker that has one, or for package outbox. For people who publish.
	Relay *Relay

	// Cipher seals body and headers of what fails before the ledger archives it, once it is published to DeadLetter, and of what is published
	// inside of InTx ([Publish]), and results of steps. For people whose database must not show their messages. Default: none. While it fails, what should be archived is kept,
	// unacknowledged, and sealing it is tried again, BackoffBase doubling to BackoffMax. It has DeadLetterTimeout, and must end with its context.
	Cipher ledger.Cipher

	// ClaimAhead is how many messages may be claimed before a handler is free for them, 1 to 100,000; four times as many of
	// Kafka's in ranges, since a claim of many costs what one of few does. Default 4,000, or MaxHeld if that is less. For
	// people with few handlers and very fast ones.
	ClaimAhead int
	// MaxHeld and MaxHeldBytes bound the messages that the worker holds (queued, running, waiting for a retry); when one
	// is reached, polling stops. Defaults 20,000 and 64 MiB of memory: two copies of all
	// that a message has, and what is made for it. For people with little memory, or with many messages
	// that wait at once. The largest message does not count if it has more than a quarter of MaxHeldBytes: alone, it stops no
	// polling. So memory is bounded by MaxHeldBytes and one message. What is parked and due may go beyond MaxHeld by a tenth, and beyond
	// MaxHeldBytes by one message, so that a backlog does not keep it out.
	MaxHeld      int
	MaxHeldBytes int64

	// ParkAfter is from which delay on a retry waits in the ledger instead of in memory, 1 s to 30 days. Default 1 min. The ledger has the
	// whole message then, before the broker is told to forget it: it holds no place in MaxHeld, no partition's offset and no message in
	// flight. When MaxHeld or MaxHeldBytes is half used up, or kafka.Config.Span, any retry of a second or more is parked, and of a fair queue (SQS: a standard
	// one whose messages have a MessageGroupId) always, since what waits in flight counts against its tenant. Messages without an order
	// are, and those that Kafka's order by key has, with their key: those behind one are parked behind it. So are groups of FIFO queues, where
	// sqs.Config.ParkGroups says so. What has another order never is. Only in ledgers that can ([ledger.Parking]). For people who would rather have long retries in memory, or short ones
	// in the ledger.
	ParkAfter time.Duration
	// ParkedMost and ParkedBytes bound what is parked of one scope, 1 to 100,000,000 messages and 1 MiB to 1 PiB
	// ([ledger.Archive.Weight]), by what the ledger says every 10 s, and sooner once a worker has parked a tenth of the room: many
	// workers may pass a bound by what they park at once. At a bound, further retries wait in memory, and Health says so.
	// Defaults 100,000 and 1 GiB. For people whose ledger has more room, or less.
	ParkedMost  int
	ParkedBytes int64
	// NoParking has all retries wait in memory, and leaves what is parked to others. For people whose database must hold no bodies of
	// messages that have not failed for good.
	NoParking bool

	// Logger receives what operators need to know; bodies never. Default: none. For everybody in production.
	Logger *zap.Logger
	// MeterProvider and TracerProvider are OpenTelemetry's. Default: the global ones. For people with several in a process.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
}

// WithDefaults returns the options with the defaults filled in, or an error that names the field, the bound and the
// value. Workers call it when they are built.
func (o Options) WithDefaults() (Options, error) {
	o.Concurrency = cmp.Or(o.Concurrency, DefaultConcurrency)
	o.Attempts = cmp.Or(o.Attempts, DefaultAttempts)
	o.Lease = cmp.Or(o.Lease, DefaultLease)
	o.Drain = cmp.Or(o.Drain, DefaultDrain)
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	o.BackoffBase = cmp.Or(o.BackoffBase, DefaultBackoffBase)
	o.BackoffMax = cmp.Or(o.BackoffMax, max(DefaultBackoffMax, o.BackoffBase))
	o.HandlerTimeout = cmp.Or(o.HandlerTimeout, DefaultHandlerTimeout)
	o.SlowAfter = cmp.Or(o.SlowAfter, DefaultSlowAfter)
	o.MaxHeld = cmp.Or(o.MaxHeld, DefaultMaxHeld)
	o.ClaimAhead = cmp.Or(o.ClaimAhead, max(1, min(DefaultClaimAhead, o.MaxHeld)))
	o.MaxHeldBytes = cmp.Or(o.MaxHeldBytes, DefaultMaxHeldBytes)
	o.Keep = cmp.Or(o.Keep, max(DefaultKeep, o.Window))
	o.ParkAfter = cmp.Or(o.ParkAfter, DefaultParkAfter)
	o.ParkedMost = cmp.Or(o.ParkedMost, DefaultParkedMost)
	o.ParkedBytes = cmp.Or(o.ParkedBytes, DefaultParkedBytes)
	o.DeadLetterTries = cmp.Or(o.DeadLetterTries, DefaultDeadLetterTries)
	o.DeadLetterTimeout = cmp.Or(o.DeadLetterTimeout, DefaultDeadLetterTimeout)
	o.Breaker.Failures = cmp.Or(o.Breaker.Failures, DefaultBreakerFailures)
	o.Breaker.Percent = cmp.Or(o.Breaker.Percent, DefaultBreakerPercent)
	o.Stamps.Keys, o.FairWeights = cloneKeys(o.Stamps.Keys), maps.Clone(o.FairWeights)
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	return o, o.validate()
}

// Bounds of Options.Rate, in handlers a second.
const (
	minRate = 0.001
	maxRate = 1e6
)

// Bounds of Options.ArchiveBudget, in bytes.
const (
	minBudget = 1 << 20
	maxBudget = 1 << 50
)

// Bounds of what Options.Limit says.
const (
	MaxLimit    = 1000 // messages
	MaxLimitKey = 512  // bytes
)

// maxTenants is how many have a weight of their own, at most.
const maxTenants = 10_000

const year = 365 * 24 * time.Hour

func (o *Options) validate() error {
	switch b := o.ArchiveBudget; {
	case o.Rate != 0 && !(o.Rate >= minRate && o.Rate <= maxRate): // NaN is in no range
		return fmt.Errorf("consumer: Options.Rate: must be 0, or %v to %v, is %v", minRate, float64(maxRate), o.Rate)
	case b != 0 && (b < minBudget || b > maxBudget):
		return fmt.Errorf("consumer: Options.ArchiveBudget: must be 0, or %d to %d, is %d", minBudget, int64(maxBudget), b)
	case o.Limiter.invalid() != nil:
		return o.Limiter.invalid()
	case o.Park && (o.Rate != 0 || o.Limiter != nil):
		return errors.New("consumer: Options.Park: must not be set with Rate or Limiter: what waits for its turn is claimed already, and a crash would archive it though no handler has seen it; Concurrency limits as well")
	case o.Park && o.MinConcurrency != 0:
		return errors.New("consumer: Options.Park: must not be set with MinConcurrency: what waits for its turn is claimed already, and a crash would archive it though no handler has seen it")
	case o.Pressure != nil && o.MinConcurrency == 0:
		return errors.New("consumer: Options.Pressure: must be set with MinConcurrency, down to which it lessens the handlers")
	case o.KeepFailed && o.KeyFunc == nil:
		return errors.New("consumer: Options.KeepFailed: must be set with KeyFunc, whose messages may be sent again: without it, another delivery of a failed message is a redrive")
	case len(o.FairWeights) > maxTenants:
		return fmt.Errorf("consumer: Options.FairWeights: must be at most %d tenants, is %d", maxTenants, len(o.FairWeights))
	case o.DeadLetter != nil && isNil(o.DeadLetter):
		return errors.New("consumer: Options.DeadLetter: must be a target, is a nil pointer")
	case o.Cipher != nil && isNil(o.Cipher):
		return errors.New("consumer: Options.Cipher: must be a cipher, is a nil pointer")
	case len(o.Name) > 255:
		return fmt.Errorf("consumer: Options.Name: must be at most 255 bytes, is %d bytes", len(o.Name))
	case !utf8.ValidString(o.Name) || strings.ContainsFunc(o.Name, unicode.IsControl):
		return fmt.Errorf("consumer: Options.Name: must be UTF-8 without control characters, is %q", o.Name)
	}
	for tenant, weight := range o.FairWeights {
		if err := inRange(fmt.Sprintf("FairWeights[%q]", tenant), weight, 1, 1000); err != nil {
			return err
		}
	}
	return cmp.Or(
		o.Stamps.validate(),
		inRange("FairShare", o.FairShare, 0, 1_000_000),
		inRange("Breaker.Failures", o.Breaker.Failures, 1, 1_000_000),
		inRange("Breaker.Percent", o.Breaker.Percent, 1, 99),
		inRange("Concurrency", o.Concurrency, 1, 10_000),
		inRange("MinConcurrency", o.MinConcurrency, 0, o.Concurrency),
		inRange("Attempts", o.Attempts, 1, 1000),
		inRange("ClaimAhead", o.ClaimAhead, 1, 100_000),
		inRange("MaxHeld", o.MaxHeld, 1, 1_000_000),
		inRange("MaxHeldBytes", o.MaxHeldBytes, 1, 64<<30),
		inRange("Lease", o.Lease, 100*time.Millisecond, time.Hour),
		inRange("Drain", o.Drain, time.Millisecond, 12*time.Hour),
		inRange("Grace", o.Grace, time.Second, 24*time.Hour),
		inRange("BackoffBase", o.BackoffBase, time.Millisecond, 12*time.Hour),
		inRange("BackoffMax", o.BackoffMax, o.BackoffBase, 12*time.Hour),
		inRange("HandlerTimeout", o.HandlerTimeout, time.Millisecond, 11*time.Hour),
		inRange("SlowAfter", o.SlowAfter, time.Millisecond, 12*time.Hour),
		inRange("ParkAfter", o.ParkAfter, time.Second, ledger.MaxPark),
		inRange("ParkedMost", o.ParkedMost, 1, 100_000_000),
		inRange("ParkedBytes", o.ParkedBytes, minBudget, maxBudget),
		inRange("Window", o.Window, 0, 100*year),
		inRange("DeadLetterTries", o.DeadLetterTries, 1, 100),
		inRange("DeadLetterTimeout", o.DeadLetterTimeout, 100*time.Millisecond, time.Minute),
		inRange("Keep", o.Keep, max(o.Window, time.Second), 100*year),
	)
}

func inRange[T ~int | ~int64](field string, v, low, high T) error {
	if v < low || v > high {
		return fmt.Errorf("consumer: Options.%s: must be %v to %v, is %v", field, low, high, v)
	}
	return nil
}
