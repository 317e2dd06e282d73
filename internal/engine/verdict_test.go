package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/backoff"
	"github.com/ackledger/ackledger/ledger"
)

var errBoom = errors.New("boom")

// What a model is told of a run is what the engine does.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		e    Ended
		want Next
	}{
		"success":               {Ended{}, Next{Settle: ledger.Succeed}},
		"failure":               {Ended{Err: errBoom}, Next{Settle: ledger.Release, After: time.Second, Count: true, Burdens: true}},
		"most fail":             {Ended{Err: errBoom, Spared: true}, Next{Settle: ledger.Release, After: time.Second, Burdens: true}},
		"most fail, put off":    {Ended{Err: consumer.Snooze(time.Minute), Spared: true}, Next{Settle: ledger.Release, After: time.Minute}},
		"most fail, for good":   {Ended{Err: consumer.Terminal(errBoom), Spared: true}, Next{Settle: ledger.Fail}},
		"committed":             {Ended{State: ledger.AttemptSucceeded}, Next{Ack: true}},
		"nobody knows":          {Ended{Err: errBoom, State: ledger.AttemptUnknown}, Next{Ask: true}},
		"the database was away": {Ended{Err: errBoom, Outage: true}, Next{Settle: ledger.Release, After: time.Second}},
		"for good":              {Ended{Err: consumer.Terminal(errBoom)}, Next{Settle: ledger.Fail}},
	} {
		if got := Judge(3, c.e, 1); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestDecide(t *testing.T) {
	p := policy{attempts: 3, backoff: backoff.Policy{Base: time.Second, Max: time.Minute}}
	unavailable := ledger.MarkUnavailable(errBoom)
	release := step{settle: ledger.Release}
	retry := step{settle: ledger.Release, after: 500 * time.Millisecond, count: true}
	fail := func(k ledger.FailureKind) step { return step{settle: ledger.Fail, kind: k} }
	for _, c := range []struct {
		name    string
		o       outcome
		attempt int
		left    time.Duration
		want    step
	}{
		{"success", outcome{}, 1, 0, step{settle: ledger.Succeed}},
		{"success at the last attempt", outcome{}, 3, 0, step{settle: ledger.Succeed}},
		{"success although we cancelled it", outcome{cause: ledger.ErrLost}, 1, 0, step{settle: ledger.Succeed}},
		{"success after its time limit", outcome{cause: consumer.ErrTimeout}, 1, 0, step{settle: ledger.Succeed}},
		{"success past the deadline", outcome{}, 1, 1, step{settle: ledger.Succeed}},
		{"transaction committed", outcome{state: ledger.AttemptSucceeded}, 1, 0, step{ack: true}},
		{"error after the commit", outcome{state: ledger.AttemptSucceeded, err: consumer.Terminal(errBoom)}, 3, 0, step{ack: true}},
		{"transaction lost", outcome{state: ledger.AttemptLost, err: ledger.ErrLost}, 1, 0, step{ask: true}},
		{"transaction lost, error hidden", outcome{state: ledger.AttemptLost}, 1, 0, step{ask: true}},
		{"transaction unknown", outcome{state: ledger.AttemptUnknown, err: errBoom}, 3, 0, step{ask: true}},
		{"transaction still open", outcome{state: ledger.AttemptRunning}, 1, 0, step{ask: true}},
		{"transaction still open, error", outcome{state: ledger.AttemptRunning, err: errBoom}, 1, 0, retry},
		{"transaction still open, last error", outcome{state: ledger.AttemptRunning, err: errBoom}, 3, 0, fail(ledger.KindExhausted)},
		{"error", outcome{err: errBoom}, 1, 0, retry},
		{"error with a cancelled context of its own", outcome{err: context.Canceled}, 1, 0, retry},
		{"time limit", outcome{err: errBoom, cause: consumer.ErrTimeout}, 1, 0, retry},
		{"time limit, context error", outcome{err: context.DeadlineExceeded, cause: consumer.ErrTimeout}, 1, 0, retry},
		{"second error", outcome{err: errBoom}, 2, 0, step{settle: ledger.Release, after: time.Second, count: true}},
		{"last error", outcome{err: errBoom}, 3, 0, fail(ledger.KindExhausted)},
		{"beyond the last error", outcome{err: errBoom}, 30, 0, fail(ledger.KindExhausted)},
		{"last time limit", outcome{err: errBoom, cause: consumer.ErrTimeout}, 3, 0, fail(ledger.KindExhausted)},
		{"last RetryAfter", outcome{err: consumer.RetryAfter(errBoom, time.Hour)}, 3, 0, fail(ledger.KindExhausted)},
		{"terminal", outcome{err: fmt.Errorf("x: %w", consumer.Terminal(errBoom))}, 1, 0, fail(ledger.KindTerminal)},
		{"terminal at the last attempt", outcome{err: consumer.Terminal(errBoom)}, 3, 0, fail(ledger.KindTerminal)},
		{"terminal of its own although cancelled", outcome{err: consumer.Terminal(errBoom), cause: ledger.ErrLost}, 1, 0, fail(ledger.KindTerminal)},
		{"terminal because cancelled", outcome{err: consumer.Terminal(context.Canceled), cause: consumer.ErrShutdown}, 1, 0, release},
		{"lost", outcome{err: errBoom, cause: ledger.ErrLost}, 3, 0, release},
		{"revoked", outcome{err: errBoom, cause: consumer.ErrRevoked}, 3, 0, release},
		{"shut down", outcome{err: errBoom, cause: consumer.ErrShutdown}, 3, 1, release},
		{"database gone", outcome{err: errBoom, txErr: unavailable, outage: true}, 3, 0, step{settle: ledger.Release, after: time.Second}},
		{"database gone, called terminal", outcome{err: consumer.Terminal(unavailable), txErr: unavailable, outage: true}, 1, 0, step{settle: ledger.Release, after: time.Second}},
		{"transaction rolled back by the handler", outcome{err: errBoom, txErr: errBoom}, 1, 0, retry},
		{"RetryAfter", outcome{err: consumer.RetryAfter(errBoom, time.Hour)}, 1, 0, step{settle: ledger.Release, after: time.Hour, count: true}},
		{"RetryAfter zero", outcome{err: consumer.RetryAfter(errBoom, 0)}, 1, 0, step{settle: ledger.Release, count: true}},
		{"snoozed", outcome{err: fmt.Errorf("x: %w", consumer.Snooze(time.Hour))}, 3, 0, step{settle: ledger.Release, after: time.Hour}},
		{"snoozed, called terminal", outcome{err: consumer.Terminal(consumer.Snooze(time.Hour))}, 1, 0, fail(ledger.KindTerminal)},
		{"snoozed past the deadline", outcome{err: consumer.Snooze(time.Hour)}, 1, time.Minute, fail(ledger.KindDeadline)},
		{"snoozed while we cancelled it", outcome{err: consumer.Snooze(time.Hour), cause: consumer.ErrShutdown}, 1, 0, release},
		{"before the deadline", outcome{err: errBoom}, 1, 501 * time.Millisecond, retry},
		{"on the deadline", outcome{err: errBoom}, 1, 500 * time.Millisecond, fail(ledger.KindDeadline)},
		{"past the deadline", outcome{err: errBoom}, 1, 1, fail(ledger.KindDeadline)},
		{"deadline that had passed before", outcome{err: errBoom}, 1, -time.Hour, retry},
	} {
		if got := p.decide(c.o, c.attempt, 0.5, c.left); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// What nobody has set must never acknowledge: the zero Verdict keeps, the zero step settles and acknowledges nothing.
func TestZeroNeverAcknowledges(t *testing.T) {
	if (Verdict{}).Ack || (step{}).ack || (step{}).settle != 0 {
		t.Fatal("a zero value acknowledges")
	}
	var zero ledger.Claim
	if zero.Answer == ledger.Done || zero.Answer == ledger.Run {
		t.Fatalf("the zero answer is %v", zero.Answer)
	}
}

func TestSpentKind(t *testing.T) {
	if k, err := spentKind(&ledger.Claim{Uncertain: true, Crashes: 1}); k != ledger.KindUncertain || err == nil {
		t.Errorf("uncertain: %v, %v", k, err)
	}
	k, err := spentKind(&ledger.Claim{Crashes: 5})
	if want := "consumer: the message's process crashed 5 times, the limit is 5"; k != ledger.KindExhausted || err.Error() != want {
		t.Errorf("exhausted: %v, %v", k, err)
	}
}

func TestOutageDelaysAreBounded(t *testing.T) {
	for n := range 100 {
		if d := outage(n); d < 50*time.Millisecond || d > 5*time.Second {
			t.Fatalf("repetition %d waits %s", n, d)
		}
	}
}
