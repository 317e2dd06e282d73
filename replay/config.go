package replay

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/checks"
	"github.com/ackledger/ackledger/ledger"
	"go.uber.org/zap"
)

// Defaults and bounds of Config.
const (
	DefaultConcurrency = 4
	DefaultStopAfter   = 10
	DefaultInterval    = time.Second

	maxConcurrency = 256
	maxStopAfter   = 10_000
	maxRate        = 1e6
	minRate        = 0.001
)

// Config says what a [Run] does. The zero value of each field means its default.
type Config struct {
	// By is who replays, and why; it goes into the audit. Actor is required unless DryRun.
	By ledger.By
	// Filter selects dead letters: by scope, state of the message, kind, error text, header, group or key, id, offsets, and
	// time of failing. Limit bounds how many are sent. Redact must be nil; Body is set by Run. A dead letter that does not
	// say what a filter asks for (one that SQS moved by itself has no kind and no error) is not selected.
	Filter ledger.Filter
	// DryRun decides about each dead letter and changes nothing. Of an SQS queue it receives the messages, which hides them
	// for a while.
	DryRun bool

	// Consumer and Origin are for dead letters that do not say which consumer failed (those that SQS moved by itself), and
	// where they came from (Message.Source). By default a consumer is taken from the ledger, if it knows exactly one of
	// that source; and what does not say where it came from is refused. A letter that says the same as Origin is not alone
	// with that: see Unknown.
	Consumer, Origin string
	// Mismatched sends what is no copy of the message that has its id, and what does not say whose copy it is, as messages
	// of their own: for people who have looked at them. By default they are left.
	Mismatched bool
	// Unknown sends dead letters that the ledger does not know (any more), or whose consumer it has never seen: for people who
	// know that they were not handled since. By default they are refused: it may be another ledger's, or somebody who may write
	// to the dead-letter queue or topic has put it there. What SQS moved by itself, whose consumer the ledger knows, needs no
	// Unknown. One whose source is its own word alone goes only to a target that the caller has named (a queue, a topic, or by
	// Origin), or to a queue whose redrive policy names the dead-letter queue.
	Unknown bool
	// FreshKeys makes child keys change (the generation grows), so that outside effects which were done already, such as a
	// payment, are done AGAIN. Only failed messages are renewed. For people whose effects must be repeated on purpose.
	FreshKeys bool
	// Mend sends Body in the place of the one that failed, as a new generation with its own fingerprint. Filter.IDs must name
	// exactly one message. For people who repair a message by hand.
	Mend bool
	Body []byte

	// StampKeys are those of the workers (consumer.Stamps.Keys): the first signs the copies' stamps. A dead letter whose stamp
	// none of them has signed is sent if the ledger knows its message with this body. Without them one whose stamp is signed is
	// refused: no worker with keys would take its copy for what it is. For people whose workers have keys: a letter from the
	// archive does not tell that they do.
	StampKeys []consumer.StampKey

	// Rate is how many are sent in a second at most, 0.001 to 1,000,000; 0: no limit. For people whose downstream has a quota.
	Rate float64
	// Concurrency is how many sends, or handlers, are under way at once, 1 to 256. Default 4. FIFO groups and Kafka keys
	// keep their order all the same.
	Concurrency int
	// StopAfter ends the run at the n-th error, 1 to 10,000: a send or handler that failed. Default 10. Behind an error,
	// nothing of the same group or key is sent.
	StopAfter int

	// Progress gets how far the run is, every Interval (default 1 s) and at the end, from one goroutine at a time. For
	// commands.
	Progress func(Progress)
	Interval time.Duration
	// Logger receives what went wrong, message by message; bodies never. Default: none.
	Logger *zap.Logger
}

// withDefaults returns the config with its defaults, or an error that names the field, the bound and the value.
func (c Config) withDefaults() (Config, error) {
	c.Concurrency = cmp.Or(c.Concurrency, DefaultConcurrency)
	c.StopAfter = cmp.Or(c.StopAfter, DefaultStopAfter)
	c.Interval = cmp.Or(c.Interval, DefaultInterval)
	c.Logger = cmp.Or(c.Logger, zap.NewNop())
	return c, c.validate()
}

func (c *Config) validate() error {
	switch {
	case c.Rate != 0 && !(c.Rate >= minRate && c.Rate <= maxRate): // NaN is in no range
		return fmt.Errorf("replay: Config.Rate: must be 0, or %v to %v, is %v", minRate, float64(maxRate), c.Rate)
	case c.Concurrency < 1 || c.Concurrency > maxConcurrency:
		return fmt.Errorf("replay: Config.Concurrency: must be 1 to %d, is %d", maxConcurrency, c.Concurrency)
	case c.StopAfter < 1 || c.StopAfter > maxStopAfter:
		return fmt.Errorf("replay: Config.StopAfter: must be 1 to %d, is %d", maxStopAfter, c.StopAfter)
	case c.Interval < time.Millisecond:
		return fmt.Errorf("replay: Config.Interval: must be at least 1ms, is %s", c.Interval)
	case c.Filter.Redact != nil:
		return errors.New("replay: Config.Filter.Redact: must be nil, is set: what is replayed must be whole")
	case c.Mend && len(c.Filter.IDs) != 1:
		return fmt.Errorf("replay: Config.Mend: Config.Filter.IDs must name exactly 1 message, names %d", len(c.Filter.IDs))
	case !c.Mend && c.Body != nil:
		return errors.New("replay: Config.Body: must be nil without Config.Mend, is set")
	}
	if err := consumer.CheckStampKeys(c.StampKeys); err != nil {
		return fmt.Errorf("replay: Config.StampKeys: %w", err)
	}
	if err := c.Filter.Check(); err != nil {
		return fmt.Errorf("replay: Config.%w", err)
	}
	if c.DryRun {
		return nil
	}
	if err := checks.By(c.By); err != nil {
		return fmt.Errorf("replay: Config.%w", err)
	}
	return nil
}

// limit is how many letters may be sent.
func (c *Config) limit() int64 {
	if c.Filter.Limit == 0 {
		return math.MaxInt64
	}
	return int64(c.Filter.Limit)
}
