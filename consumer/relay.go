package consumer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
)

// Defaults of Relay.
const (
	DefaultRelayParallel   = 4
	DefaultRelayBatch      = 1000
	DefaultRelayBatchBytes = 4 << 20
	DefaultRelayLease      = 30 * time.Second
	DefaultRelayInterval   = 100 * time.Millisecond
	DefaultRelayTries      = 10
)

// Relay sends what was published inside of InTx ([Publish]). Any number of processes may relay for one ledger: each takes lanes, of which
// one target has 16. The zero value of each field but Targets means its default.
type Relay struct {
	// Targets says where messages go, by Outgoing.Target; 1 to 1,000. Messages for a name that no relay has wait.
	Targets map[string]Publisher
	// Parallel is how many lanes this process sends at once, 1 to 64. Default 4. For people with many messages, or slow brokers.
	Parallel int
	// Batch and BatchBytes are how many messages, and bytes of their bodies, are given to a Publisher at once: 1 to 10,000 and 1 to 64 MiB.
	// One message may be larger. Keys and headers are not counted: who has large headers sets Batch. Defaults 1,000 and 4 MiB. For people
	// with little memory.
	Batch, BatchBytes int
	// Lease is how long the lanes of a process that died stay closed to others, 1 s to 1 h. Default 30 s. A call of a Publisher has a
	// third of it. For people whose brokers are slow.
	Lease time.Duration
	// Interval is how often it looks for messages while there are none, 10 ms to 1 min. Default 100 ms. A lane in which all messages wait for
	// their next try is looked at once a second, or more rarely with a longer Interval. For people with many idle processes, or who want to
	// wait less.
	Interval time.Duration
	// Tries is how often a target may refuse a message before it goes to the ledger's archive, 1 to 1,000. Between two tries of a message,
	// which hold up its key, 200 ms pass, doubling up to 30 s. Default 10. What is Terminal goes at once. An outage counts nothing.
	Tries int
	// HoldKeys keeps a message that is refused for good in the outbox, and what is behind it under its key, until the target takes it or this
	// is set back. Default: it goes to the archive, and the others go on. For people whose order is worth more than their progress.
	HoldKeys bool
	// StampKeys sign the stamps ([Stamps].Keys).
	StampKeys []StampKey
	// Cipher opens what the workers' Options.Cipher sealed, and seals what is archived. A worker's relay has that of the worker by default. A
	// message that it does not open waits until it does, and what is behind it under its key. For people whose workers have one.
	Cipher ledger.Cipher
	// Keep is how long the archive keeps what was refused. Default 90 days.
	Keep time.Duration

	// Logger and MeterProvider are as in [Options]. A worker's relay has those of the worker by default.
	Logger        *zap.Logger
	MeterProvider metric.MeterProvider
}

// WithDefaults returns the settings with the defaults filled in, or an error that names the field, the bound and the value.
func (r Relay) WithDefaults() (Relay, error) {
	r.Parallel = cmp.Or(r.Parallel, DefaultRelayParallel)
	r.Batch = cmp.Or(r.Batch, DefaultRelayBatch)
	r.BatchBytes = cmp.Or(r.BatchBytes, DefaultRelayBatchBytes)
	r.Lease = cmp.Or(r.Lease, DefaultRelayLease)
	r.Interval = cmp.Or(r.Interval, DefaultRelayInterval)
	r.Tries = cmp.Or(r.Tries, DefaultRelayTries)
	r.Keep = cmp.Or(r.Keep, DefaultKeep)
	r.Logger = cmp.Or(r.Logger, zap.NewNop())
	r.Targets, r.StampKeys = maps.Clone(r.Targets), cloneKeys(r.StampKeys)
	if n := len(r.Targets); n < 1 || n > 1000 {
		return r, fmt.Errorf("consumer: Relay.Targets: must be 1 to 1000, are %d", n)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Targets)) {
		switch {
		case name == "" || len(name) > ledger.MaxTarget:
			return r, fmt.Errorf("consumer: Relay.Targets: a name must be 1 to %d bytes, is %d bytes", ledger.MaxTarget, len(name))
		case r.Targets[name] == nil || isNil(r.Targets[name]):
			return r, fmt.Errorf("consumer: Relay.Targets[%q]: must be a publisher, is nil", name)
		}
	}
	if r.Cipher != nil && isNil(r.Cipher) {
		return r, errors.New("consumer: Relay.Cipher: must be a cipher, is a nil pointer")
	}
	if err := CheckStampKeys(r.StampKeys); err != nil {
		return r, fmt.Errorf("consumer: Relay.StampKeys: %w", err)
	}
	return r, errors.Join(
		within("Parallel", r.Parallel, 1, 64),
		within("Batch", r.Batch, 1, 10_000),
		within("BatchBytes", r.BatchBytes, 1, 64<<20),
		within("Lease", r.Lease, time.Second, time.Hour),
		within("Interval", r.Interval, 10*time.Millisecond, time.Minute),
		within("Tries", r.Tries, 1, 1000),
		within("Keep", r.Keep, time.Second, 100*year),
	)
}

func within[T ~int | ~int64](field string, v, low, high T) error {
	if v < low || v > high {
		return fmt.Errorf("consumer: Relay.%s: must be %v to %v, is %v", field, low, high, v)
	}
	return nil
}
