package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/backoff"
	"github.com/ackledger/ackledger/ledger"
)

// outcome is how one run of a handler ended.
type outcome struct {
	err   error
	kind  ledger.FailureKind // of err
	cause error              // why the handler's context was cancelled; nil: it was not
	state ledger.AttemptState
	txErr error // why the attempt's transaction did not succeed
	// outage: its transaction broke off with the database, which is not the handler's failure.
	outage bool
}

// policy is what decides about failures, apart from the failure itself.
type policy struct {
	attempts int
	backoff  backoff.Policy
}

// step is what to do with a message that a handler has left.
type step struct {
	// settle is the settlement's kind; zero: nothing is to be settled.
	settle ledger.SettleKind
	after  time.Duration
	count  bool
	kind   ledger.FailureKind // with Fail
	// ack: the message is settled already, by its transaction.
	ack bool
	// again: run it again at once, by itself; it is ours, and no attempt is counted.
	again bool
	// ask: whether the message is ours is not known, or it is not: claim it again.
	ask bool
}

// decide says what follows from an outcome. It is pure: attempt is the attempt's number, draw is in [0, 1), left is the
// time until the broker forgets the message (zero or less: it does not, or the time had passed when the message came).
func (p policy) decide(o outcome, attempt int, draw float64, left time.Duration) step {
	switch o.state {
	case ledger.AttemptSucceeded:
		return step{ack: true}
	case ledger.AttemptLost, ledger.AttemptUnknown:
		return step{ask: true}
	case ledger.AttemptRunning: // a failure, see errLeft: its settlement and the transaction's fence exclude each other
		if o.err == nil {
			return step{ask: true}
		}
	}
	if o.err == nil {
		return step{settle: ledger.Succeed}
	}
	terminal := consumer.IsTerminal(o.err)
	if interrupted(o.cause) && (!terminal || fromContext(o.err)) {
		return step{settle: ledger.Release}
	}
	if o.outage {
		return step{settle: ledger.Release, after: p.backoff.Ceiling(1)}
	}
	if terminal {
		return step{settle: ledger.Fail, kind: ledger.KindTerminal}
	}
	if attempt >= p.attempts {
		return step{settle: ledger.Fail, kind: ledger.KindExhausted}
	}
	after, asked := consumer.RetryDelay(o.err)
	if !asked {
		after = p.backoff.Delay(attempt, draw)
	}
	if left > 0 && after >= left {
		return step{settle: ledger.Fail, kind: ledger.KindDeadline}
	}
	return step{settle: ledger.Release, after: after, count: true}
}

// interrupted says whether the handler was cancelled by us: such an attempt is not counted.
func interrupted(cause error) bool {
	return errors.Is(cause, ledger.ErrLost) || errors.Is(cause, consumer.ErrRevoked) || errors.Is(cause, consumer.ErrShutdown)
}

func fromContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || interrupted(err)
}

// failure describes an outcome for the row's list of errors.
func (o outcome) failure(attempt int, now time.Time) ledger.AttemptError {
	return ledger.AttemptError{Attempt: attempt, Kind: o.kind, Error: o.err.Error(), At: now}
}

// Bounds of how often a busy message is asked for again. The longest wait is short against a lease, so that a message
// whose owner died is taken over soon after; the shortest keeps a locked row from being hammered.
const (
	minAsk = 50 * time.Millisecond
	maxAsk = 10 * time.Second
)

// askAgain says in how long to ask for a busy message again: when the reason ends, as far as it is known, else at
// doubling intervals. It is pure; asks counts the answers in a row, draw is in [0, 1).
func askAgain(wait time.Duration, asks int, draw float64) time.Duration {
	if wait <= 0 {
		wait = backoff.Policy{Base: minAsk, Max: 2 * time.Second}.Ceiling(asks)
	}
	wait = min(max(wait, minAsk), maxAsk)
	return wait + time.Duration(draw*float64(wait)/10)
}

// spentKind says why a Spent message is dead-lettered.
func spentKind(c *ledger.Claim) (ledger.FailureKind, error) {
	if c.Uncertain {
		return ledger.KindUncertain, errors.New("consumer: the attempt was cut short; whether its effect happened is not known")
	}
	return ledger.KindExhausted, fmt.Errorf("consumer: the message's process crashed %d times, the limit is %d", c.Crashes, ledger.CrashLimit)
}
