package consumer

import (
	"errors"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Causes with which the context of a handler is cancelled (context.Cause), beside ledger.ErrLost. An attempt that ends
// in an error after any of them but ErrTimeout is not counted.
var (
	// ErrTimeout says that Options.HandlerTimeout has passed.
	ErrTimeout = errors.New("consumer: the handler's time limit has passed")
	// ErrRevoked says that the message's partition went to another member of the group, or its handle expired.
	ErrRevoked = errors.New("consumer: the message was taken back by the broker")
	// ErrShutdown says that the worker stops and the drain's time is up.
	ErrShutdown = errors.New("consumer: the worker shuts down")
)

// Terminal wraps err to say that no retry can help: the message fails for good and goes to the archive. Nil stays nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err}
}

// RetryAfter wraps err to say when the next attempt is due, instead of the backoff. The attempt counts. A delay below
// zero counts as zero, one above 30 days as 30 days; where the message waits in memory, and not in the ledger (Options.ParkAfter), one above
// 12 hours as 12 hours. Nil stays nil.
func RetryAfter(err error, delay time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryError{err, min(max(delay, 0), maxRetryAfter)}
}

const maxRetryAfter = ledger.MaxPark

// RetryAt is [RetryAfter] with a time of this process's clock.
func RetryAt(err error, at time.Time) error { return RetryAfter(err, time.Until(at)) }

// Snooze returns what a handler returns to put its message off: it comes again after the delay, with the same number of attempts, however
// often that is. A transaction of its own (InTx) is rolled back. Its delay has the bounds of [RetryAfter]; a message whose broker forgets
// it before then fails for good. For handlers that find out that it is too early: a bank that is closed, an event that must come first. The
// message is in hand meanwhile, unless it waits in the ledger (Options.ParkAfter); so it counts against Options.MaxHeld, and holds up on Kafka the committed offset, and what is ordered
// behind it. On an SQS standard queue a delay above 15 minutes costs one more receive, which the queue's maxReceiveCount counts.
func Snooze(delay time.Duration) error { return &snoozeError{min(max(delay, 0), maxRetryAfter)} }

// SnoozeDelay returns the delay for which err puts the message off, and whether it does.
func SnoozeDelay(err error) (time.Duration, bool) {
	s, ok := errors.AsType[*snoozeError](err)
	if !ok {
		return 0, false
	}
	return s.delay, true
}

// IsTerminal reports whether err says that no retry can help.
func IsTerminal(err error) bool {
	_, ok := errors.AsType[*terminalError](err)
	return ok
}

// RetryDelay returns the delay that err asks for, and whether it does.
func RetryDelay(err error) (time.Duration, bool) {
	r, ok := errors.AsType[*retryError](err)
	if !ok {
		return 0, false
	}
	return r.delay, true
}

type terminalError struct{ err error }

func (e *terminalError) Error() string { return e.err.Error() }
func (e *terminalError) Unwrap() error { return e.err }

type retryError struct {
	err   error
	delay time.Duration
}

func (e *retryError) Error() string { return e.err.Error() }
func (e *retryError) Unwrap() error { return e.err }

type snoozeError struct{ delay time.Duration }

func (e *snoozeError) Error() string { return "consumer: snoozed for " + e.delay.String() }
