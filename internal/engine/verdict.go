package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/backoff"
	"github.com/ackledger/ackledger/ledger"
)

// ErrGiveBack is what a handler returns that gives its message back, uncounted and due at once: it has done nothing of it, or nothing
// that would count.
var ErrGiveBack = errors.New("engine: the handler gives its message back")

// outcome is how one run of a handler ended.
type outcome struct {
	err   error
	kind  ledger.FailureKind // of err
	cause error              // why the handler's context was cancelled; nil: it was not
	state ledger.AttemptState
	txErr error // why the attempt's transaction did not succeed
	// outage: its transaction broke off with the database, which is not the handler's failure.
	outage bool
	waits  int // outages in a row that only time ends; zero: it is of another kind
	// spared is why an attempt says nothing of its message: most fail of late. How often that was so, before: times.
	spared bool
	times  int
}

// policy is what decides about failures, apart from the failure itself.
type policy struct {
	attempts int
	backoff  backoff.Policy
	longest  time.Duration // that an attempt is put off; zero: longestHeld
}

// longestHeld is the longest time for which an attempt is put off whose message waits in memory.
const longestHeld = 12 * time.Hour

// longestOutage is the longest time between two attempts at what an outage keeps back.
const longestOutage = time.Minute

// step is what to do with a message that a handler has left.
type step struct {
	// settle is the settlement's kind; zero: nothing is to be settled.
	settle ledger.SettleKind
	after  time.Duration
	count  bool
	spared bool               // it would count if most attempts did not fail
	kind   ledger.FailureKind // with Fail
	// ack: the message is settled already, by its transaction.
	ack bool
	// again: run it again at once, by itself; it is ours, and no attempt is counted.
	again bool
	// narrow: it did not begin, and will soon be asked about again.
	narrow bool
	// ask: whether the message is ours is not known, or it is not: claim it again.
	ask bool
}

// well is the step after a handler that did nothing but succeed.
var well = step{settle: ledger.Succeed}

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
		return well
	}
	if errors.Is(o.err, ErrGiveBack) {
		return step{settle: ledger.Release}
	}
	terminal := consumer.IsTerminal(o.err)
	if interrupted(o.cause) && (!terminal || fromContext(o.err)) {
		return step{settle: ledger.Release}
	}
	if o.outage {
		return step{settle: ledger.Release, after: max(p.backoff.Ceiling(1), min(p.backoff.Ceiling(o.waits), longestOutage))}
	}
	if terminal {
		return step{settle: ledger.Fail, kind: ledger.KindTerminal}
	}
	after, snoozed := consumer.SnoozeDelay(o.err)
	if !snoozed {
		if attempt >= p.attempts && !o.spared {
			return step{settle: ledger.Fail, kind: ledger.KindExhausted}
		}
		after = p.pause(o.err, attempt+o.times, draw)
	}
	after = min(after, cmp.Or(p.longest, longestHeld))
	if left > 0 && after >= left {
		return step{settle: ledger.Fail, kind: ledger.KindDeadline}
	}
	return step{settle: ledger.Release, after: after, count: !snoozed && !o.spared, spared: !snoozed && o.spared}
}

// burdens says whether it failed as it may because there is too much to do: by an error, or by its time, that is worth another attempt.
func (o *outcome) burdens() bool {
	decided := o.state == ledger.AttemptSucceeded || o.state == ledger.AttemptLost || o.state == ledger.AttemptUnknown
	if o.err == nil || o.outage || decided || interrupted(o.cause) || errors.Is(o.err, ErrGiveBack) || consumer.IsTerminal(o.err) {
		return false
	}
	_, snoozed := consumer.SnoozeDelay(o.err)
	kind := o.failed()
	return !snoozed && (kind == ledger.KindError || kind == ledger.KindTimeout)
}

// pause is the time between a failed attempt and the next.
func (p policy) pause(err error, attempt int, draw float64) time.Duration {
	if after, asked := consumer.RetryDelay(err); asked {
		return after
	}
	return p.backoff.Delay(attempt, draw)
}

// failed is in which way a handler failed. A batch whose transaction did not succeed has a kind, too.
func (o *outcome) failed() ledger.FailureKind {
	kind := cmp.Or(o.kind, ledger.KindError)
	if kind == ledger.KindError && errors.Is(o.cause, consumer.ErrTimeout) {
		return ledger.KindTimeout
	}
	return kind
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

// spentKind says why a Spent message is dead-lettered.
func spentKind(c *ledger.Claim) (ledger.FailureKind, error) {
	if c.Uncertain {
		return ledger.KindUncertain, errors.New("consumer: the attempt was cut short; whether its effect happened is not known")
	}
	return ledger.KindExhausted, fmt.Errorf("consumer: the message's process crashed %d times, the limit is %d", c.Crashes, ledger.CrashLimit)
}

// Ended is how one run of a handler ended, for [Judge].
type Ended struct {
	Err    error // the handler's
	Cause  error // why its context was cancelled; nil: it was not
	State  ledger.AttemptState
	Outage bool // its transaction broke off with the database
	Spared bool // most attempts fail of late
}

// Next is what follows from it. The zero value is never acknowledged.
type Next struct {
	Settle ledger.SettleKind // zero: nothing is to be settled
	After  time.Duration
	Count  bool
	Ack    bool // settled already, by its transaction
	Ask    bool // whether the message is ours is not known, or it is not: claim it again
	// Burdens says that it failed as it may because there is too much to do.
	Burdens bool
}

// Judge is the engine's verdict on one run, for those who check the rules without an engine (internal/model). It is pure.
// attempts is the limit, attempt the attempt's number, from 1; a failure that is to be repeated is so after a second.
func Judge(attempts int, e Ended, attempt int) Next {
	p := policy{attempts: attempts, backoff: backoff.Policy{Base: time.Second, Max: time.Second}}
	o := outcome{err: e.Err, kind: ledger.KindError, cause: e.Cause, state: e.State, outage: e.Outage}
	o.spared = e.Spared && o.burdens()
	st := p.decide(o, attempt, 1, 0)
	return Next{Settle: st.settle, After: st.after, Count: st.count, Ack: st.ack, Ask: st.ask, Burdens: o.burdens()}
}
