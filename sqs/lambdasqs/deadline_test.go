package lambdasqs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/lambdasqs"
)

// within handles an event in an invocation of this length, and checks that the response is in time.
func (f *function) within(d time.Duration, e events.SQSEvent) ([]string, error) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), d)
	defer cancel()
	out, err := f.handler.Handle(ctx, e)
	if ctx.Err() != nil {
		f.t.Errorf("the invocation's %s were over before the response", d)
	}
	return names(out), err
}

// ends is when and why the handlers' contexts ended.
type ends map[string]string

// blocking makes a handler that waits for the end of its context, and keeps when and why that came.
func (f *function) blocking(began *time.Time, e ends) consumer.Handler {
	return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		<-ctx.Done()
		f.mu.Lock()
		e[m.ID] = fmt.Sprintf("%s, attempt %d: %v", time.Since(*began), m.Attempt, context.Cause(ctx))
		f.mu.Unlock()
		return ctx.Err()
	})
}

// The margin before the deadline ends what began late, and gives it back uncounted with what had not begun. What had nine tenths of the
// time has had its attempt.
func TestTheMarginBeforeTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, got, began := &function{}, ends{}, time.Now()
		f = newFunction(t, memory.New(), consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
			return f.blocking(&began, got).Handle(ctx, m)
		}), &lambdasqs.Config{Options: consumer.Options{Concurrency: 1}})
		for n := 1; n <= 2; n++ {
			again, err := f.within(100*time.Second, event(queue, "1", "2", "3"))
			if want := []string{"1", "2", "3"}; err != nil || !slices.Equal(again, want) {
				t.Fatalf("%q, %v, want %q", again, err, want)
			}
			want := ends{
				"1": fmt.Sprintf("1m25.5s, attempt %d: %v", n, consumer.ErrTimeout), // nine tenths of 95 s
				"2": fmt.Sprintf("1m35s, attempt 1: %v", consumer.ErrRevoked),
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("invocation %d: the contexts ended\n%v, want\n%v", n, got, want)
			}
			began = time.Now().Add(time.Second)
			time.Sleep(time.Second) // the visibility timeout
		}
	})
}

// A short invocation's margin is a quarter of it.
func TestTheMarginOfAShortInvocation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, got, began := &function{}, ends{}, time.Now()
		f = newFunction(t, memory.New(), consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
			return f.blocking(&began, got).Handle(ctx, m)
		}), &lambdasqs.Config{})
		if again, err := f.within(4*time.Second, event(queue, "1")); err != nil || !slices.Equal(again, []string{"1"}) {
			t.Errorf("%q, %v", again, err)
		}
		if want := "2.7s, attempt 1: " + consumer.ErrTimeout.Error(); got["1"] != want {
			t.Errorf("the context ended %s, want %s", got["1"], want)
		}
		if _, err := f.within(499*time.Millisecond, event(queue, "1")); err == nil {
			t.Error("an invocation of less than 500 ms was begun")
		}
	})
}

// A handler that ignores its context keeps nothing from the response, and its end is no end of another attempt.
func TestAHandlerThatIgnoresItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var f *function
		var calls atomic.Int32
		end := make(chan struct{})
		f = newFunction(t, memory.New(), consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
			if calls.Add(1) == 1 {
				<-end
				return errors.New("too late to matter")
			}
			return f.ran(m)
		}), &lambdasqs.Config{})
		if again, err := f.within(10*time.Second, event(queue, "1")); err != nil || !slices.Equal(again, []string{"1"}) {
			t.Errorf("%q, %v", again, err)
		}
		f.handle(event(queue, "1"), nil, "1 1")
		close(end)
		synctest.Wait()
		f.handle(event(queue, "1"), nil)
	})
}

// A ledger whose calls answer only when their time is up, from some point of the invocation on, makes no response late, and has
// nothing acknowledged that it did not confirm.
func TestALedgerThatBlocks(t *testing.T) {
	for _, op := range []memory.Op{memory.Join, memory.Claim, memory.Settle, memory.Leave, memory.Beat} {
		for _, limit := range []time.Duration{time.Second, 3 * time.Second, time.Minute} {
			t.Run(fmt.Sprint(op, " within ", limit), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					l := memory.New()
					l.FailBefore(func(ctx context.Context, o memory.Op) error {
						if o != op {
							return nil
						}
						<-ctx.Done()
						return ledger.MarkUnknown(ctx.Err())
					})
					f := newFunction(t, l, nil, &lambdasqs.Config{})
					again, err := f.within(limit, event(queue, "1"))
					switch op {
					case memory.Join:
						if !errors.Is(err, lambdasqs.ErrNoLedger) {
							t.Errorf("%q, %v", again, err)
						}
					case memory.Leave, memory.Beat:
						if err != nil || len(again) > 0 {
							t.Errorf("%q, %v", again, err)
						}
					default:
						if err != nil || !slices.Equal(again, []string{"1"}) {
							t.Errorf("%q, %v", again, err)
						}
					}
					l.FailBefore(nil)
					time.Sleep(3 * limit) // what was not left ends
					if again, err := f.within(time.Minute, event(queue, "1")); err != nil || len(again) > 0 {
						t.Errorf("with the ledger back: %q, %v", again, err)
					}
				})
			})
		}
	}
}

// The ledger blocks while the last handler is at work: its success is not known to be durable.
func TestALedgerThatBlocksNearTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := memory.New()
		var f *function
		f = newFunction(t, l, consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
			_ = f.ran(m)
			if m.ID == "2" {
				time.Sleep(15 * time.Second)
				l.FailBefore(func(ctx context.Context, _ memory.Op) error {
					<-ctx.Done()
					return ledger.MarkUnknown(ctx.Err())
				})
			}
			return nil
		}), &lambdasqs.Config{})
		if again, err := f.within(20*time.Second, event(queue, "1", "2")); err != nil || !slices.Equal(again, []string{"2"}) {
			t.Errorf("%q, %v", again, err)
		}
		time.Sleep(time.Minute) // the call that was left behind ends
	})
}

// slowTarget is a target for dead letters that answers no question in time.
type slowTarget struct{ letters }

func (*slowTarget) Source(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

func TestATargetThatBlocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFunction(t, memory.New(), nil, &lambdasqs.Config{Options: consumer.Options{DeadLetter: &slowTarget{}}})
		if again, err := f.within(3*time.Second, event(queue, "1")); err != nil || len(again) > 0 || len(f.runs) != 1 {
			t.Errorf("%q, %v, handled %q", again, err, f.runs)
		}
	})
}

// A KeyFunc that does not return costs its message the invocation, and its neighbours nothing. What is behind it in its group waits.
func TestAKeyFuncThatBlocks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		end := make(chan struct{})
		defer close(end)
		f := newFunction(t, memory.New(), nil, &lambdasqs.Config{Options: consumer.Options{KeyFunc: func(m *consumer.Message) (string, error) {
			if m.ID == "a-2" {
				<-end
			}
			return m.ID, nil
		}}})
		again, err := f.within(10*time.Second, event(fifo, "a-1", "a-2", "a-3", "b-1"))
		slices.Sort(f.runs)
		if want := []string{"a-2", "a-3"}; err != nil || !slices.Equal(again, want) || !slices.Equal(f.runs, []string{"a-1 1", "b-1 1"}) {
			t.Errorf("%q, %v, handled %q", again, err, f.runs)
		}
	})
}

// What the queue is about to forget is archived, and not given back.
func TestARetryThatWouldComeTooLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := memory.New()
		f := newFunction(t, l, nil, &lambdasqs.Config{Retention: time.Hour})
		f.errs["1"] = consumer.RetryAfter(errors.New("closed"), 2*time.Hour)
		f.handle(event(queue, "1"), nil, "1 1")
		recs, err := l.Find(t.Context(), sqs.Scope(queue, "billing"), []byte("1"))
		if err != nil || len(recs) != 1 || len(recs[0].Archived) != 1 || recs[0].Archived[0].Kind != ledger.KindDeadline {
			t.Errorf("%+v, %v", recs, err)
		}
	})
}
