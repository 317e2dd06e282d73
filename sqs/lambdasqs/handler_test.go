package lambdasqs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
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

const (
	queue = "arn:aws:sqs:us-east-1:000000000000:orders"
	fifo  = queue + ".fifo"
)

// message is a record of an event; of a FIFO queue's its id begins with its group, as in a-1.
func message(arn, id string) events.SQSMessage {
	m := events.SQSMessage{
		MessageId: id, ReceiptHandle: "handle", Body: "body of " + id, EventSource: "aws:sqs", EventSourceARN: arn, AWSRegion: "us-east-1",
		Attributes: map[string]string{"ApproximateReceiveCount": "1", "SentTimestamp": fmt.Sprint(time.Now().UnixMilli())},
	}
	if arn == fifo {
		m.Attributes["MessageGroupId"] = id[:1]
	}
	return m
}

func event(arn string, ids ...string) (e events.SQSEvent) {
	for _, id := range ids {
		e.Records = append(e.Records, message(arn, id))
	}
	return e
}

// function is a Lambda function of a test, and what its handler was called with.
type function struct {
	t       *testing.T
	ledger  ledger.Ledger
	handler *lambdasqs.Handler
	errs    map[string]error // what the handler returns, by the message's id

	mu   sync.Mutex
	runs []string // id and attempt
}

// newFunction makes one whose invocations have a minute. A nil h returns the function's errs.
func newFunction(t *testing.T, l ledger.Ledger, h consumer.Handler, c *lambdasqs.Config) *function {
	t.Helper()
	f := &function{t: t, ledger: l, errs: map[string]error{}}
	if h == nil {
		h = consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error { return f.ran(m) })
	}
	c.Name = "billing"
	var err error
	if f.handler, err = lambdasqs.New(l, h, c); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *function) ran(m *consumer.Message) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.runs = append(f.runs, fmt.Sprint(m.ID, " ", m.Attempt))
	return f.errs[m.ID]
}

// handle handles an event, and checks what comes again and which runs it took, in any order.
func (f *function) handle(e events.SQSEvent, again []string, runs ...string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	f.mu.Lock()
	f.runs = nil
	f.mu.Unlock()
	out, err := f.handler.Handle(ctx, e)
	if err != nil {
		f.t.Fatal(err)
	}
	if got := names(out); !slices.Equal(got, again) {
		f.t.Errorf("to be delivered again: %q, want %q", got, again)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Sort(f.runs); !slices.Equal(f.runs, runs) {
		f.t.Errorf("handled %q, want %q", f.runs, runs)
	}
}

func names(out events.SQSEventResponse) (ids []string) {
	for _, f := range out.BatchItemFailures {
		ids = append(ids, f.ItemIdentifier)
	}
	return ids
}

// bubble runs a test on a clock of its own, beside the others.
func bubble(t *testing.T, test func(*testing.T)) {
	t.Parallel()
	synctest.Test(t, test)
}

func TestOnlyWhatIsNotDoneComesAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFunction(t, memory.New(), nil, &lambdasqs.Config{})
		f.errs["2"] = errors.New("no such price list")
		f.handle(event(queue, "1", "2", "3"), []string{"2"}, "1 1", "2 1", "3 1")
		time.Sleep(time.Second) // the visibility timeout
		delete(f.errs, "2")
		f.handle(event(queue, "1", "2"), nil, "2 2")
		f.handle(event(queue, "1", "2", "3"), nil)
	})
}

func TestACopyInTheSameEventIsNotRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFunction(t, memory.New(), nil, &lambdasqs.Config{})
		f.handle(event(queue, "1", "1", "2"), nil, "1 1", "2 1")
	})
}

func TestACopyOfWhatFailsIsNamedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFunction(t, memory.New(), nil, &lambdasqs.Config{Options: consumer.Options{BackoffBase: time.Hour}})
		f.errs["1"] = consumer.RetryAfter(errors.New("away"), time.Hour)
		f.handle(event(queue, "1", "1"), []string{"1"}, "1 1")
	})
}

// The response is JSON that Lambda takes for "all is done", and no ledger is needed for it.
func TestAnEmptyEvent(t *testing.T) {
	t.Parallel()
	l := memory.New()
	l.FailBefore(func(context.Context, memory.Op) error { return errors.New("the ledger was asked") })
	f := newFunction(t, l, nil, &lambdasqs.Config{})
	out, err := f.handler.Handle(t.Context(), events.SQSEvent{})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(out); err != nil || string(text) != `{"batchItemFailures":[]}` {
		t.Errorf("%s, %v", text, err)
	}
}

func TestABatchLargerThanConcurrency(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		running, most, all := 0, 0, 0
		f := newFunction(t, memory.New(), consumer.HandlerFunc(func(context.Context, *consumer.Message) error {
			mu.Lock()
			running++
			most, all = max(most, running), all+1
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			running--
			return nil
		}), &lambdasqs.Config{Options: consumer.Options{Concurrency: 4}})
		var ids []string
		for i := range 500 {
			ids = append(ids, fmt.Sprint(i))
		}
		f.handle(event(queue, ids...), nil)
		if most != 4 || all != 500 {
			t.Errorf("%d ran, %d at once; want 500, 4 at once", all, most)
		}
	})
}

func TestARetryThatIsNotDueGoesBackAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFunction(t, memory.New(), nil, &lambdasqs.Config{})
		f.errs["1"] = consumer.RetryAfter(errors.New("closed"), time.Hour)
		f.handle(event(queue, "1"), []string{"1"}, "1 1")
		began := time.Now()
		f.handle(event(queue, "1", "2"), []string{"1"}, "2 1")
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %s of the invocation's minute", took)
		}
		time.Sleep(time.Hour)
		delete(f.errs, "1")
		f.handle(event(queue, "1"), nil, "1 2")
	})
}

// Every retry of SQS finds the message again; its last one archives it.
func TestWhatFailsForGoodIsArchivedPublishedAndAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l, target := memory.New(), &letters{}
		f := newFunction(t, l, nil, &lambdasqs.Config{Options: consumer.Options{Attempts: 2, DeadLetter: target}})
		f.errs["1"], f.errs["2"] = consumer.Terminal(errors.New("no such order")), errors.New("away")
		f.handle(event(queue, "1", "2"), []string{"2"}, "1 1", "2 1")
		time.Sleep(time.Second)
		f.handle(event(queue, "1", "2"), nil, "2 2")
		slices.Sort(target.got)
		if want := []string{"1 terminal body of 1", "2 exhausted body of 2"}; !slices.Equal(target.got, want) {
			t.Errorf("dead letters %q, want %q", target.got, want)
		}
		for _, id := range []string{"1", "2"} {
			recs, err := l.Find(t.Context(), sqs.Scope(queue, "billing"), []byte(id))
			if err != nil || len(recs) != 1 || recs[0].State != ledger.Failed {
				t.Errorf("message %s in the ledger: %+v, %v", id, recs, err)
			}
		}
	})
}

// letters is a target for dead letters.
type letters struct {
	source string
	mu     sync.Mutex
	got    []string
}

func (l *letters) Source(context.Context) (string, error) { return l.source, nil }

func (l *letters) Publish(_ context.Context, d *consumer.DeadLetter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, fmt.Sprintf("%s %s %s", d.Message.ID, d.Kind, d.Message.Body))
	return nil
}

func TestDeadLettersMustNotComeBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFunction(t, memory.New(), nil, &lambdasqs.Config{Options: consumer.Options{DeadLetter: &letters{source: queue}}})
		for range 2 {
			if out, err := f.handler.Handle(t.Context(), event(queue, "1")); err == nil || len(f.runs) > 0 {
				t.Errorf("handled %q, %v, %v", f.runs, out, err)
			}
		}
		f.handle(event(fifo, "a"), nil, "a 1") // another queue
	})
}

func TestRecordsOfSomethingElse(t *testing.T) {
	t.Parallel()
	for field, spoil := range map[string]func(*events.SQSMessage){
		"messageId":      func(m *events.SQSMessage) { m.MessageId = "" },
		"eventSource":    func(m *events.SQSMessage) { m.EventSource = "aws:sns" },
		"eventSourceARN": func(m *events.SQSMessage) { m.EventSourceARN = fifo },
	} {
		f := newFunction(t, memory.New(), nil, &lambdasqs.Config{})
		e := event(queue, "1", "2")
		spoil(&e.Records[1])
		_, err := f.handler.Handle(t.Context(), e)
		if bad, ok := errors.AsType[*lambdasqs.RecordError](err); !ok || bad.Index != 1 || bad.Field != field || len(f.runs) > 0 {
			t.Errorf("%s: %v, handled %q", field, err, f.runs)
		}
	}
	e := event(queue, "1")
	e.Records[0].EventSourceARN = "orders"
	if _, err := newFunction(t, memory.New(), nil, &lambdasqs.Config{}).handler.Handle(t.Context(), e); err == nil {
		t.Error("an ARN of one part was taken")
	}
}

// A cold start whose ledger is away handles nothing, and says so in time.
func TestTheLedgerIsAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		away := errors.New("no route to the ledger")
		l := memory.New()
		l.FailBefore(func(context.Context, memory.Op) error { return away })
		f := newFunction(t, l, nil, &lambdasqs.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := f.handler.Handle(ctx, event(queue, "1"))
		if !errors.Is(err, lambdasqs.ErrNoLedger) || len(f.runs) > 0 || ctx.Err() != nil {
			t.Errorf("%v, %v, handled %q, the invocation's time: %v", out, err, f.runs, ctx.Err())
		}
		l.FailBefore(nil)
		f.handle(event(queue, "1"), nil, "1 1")
	})
}

// The ledger goes away behind a handler: its success is not known to be durable, so it comes again.
func TestTheLedgerGoesAwayInMidInvocation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := memory.New()
		var f *function
		f = newFunction(t, l, consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
			l.FailBefore(func(context.Context, memory.Op) error { return errors.New("no route to the ledger") })
			return f.ran(m)
		}), &lambdasqs.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		out, err := f.handler.Handle(ctx, event(queue, "1"))
		if got := names(out); err != nil || !slices.Equal(got, []string{"1"}) || ctx.Err() != nil {
			t.Errorf("%q, %v, the invocation's time: %v", got, err, ctx.Err())
		}
	})
}

func TestFailWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFunction(t, memory.New(), nil, &lambdasqs.Config{FailWhole: true})
		f.errs["2"] = errors.New("away")
		_, err := f.handler.Handle(t.Context(), event(queue, "1", "2"))
		if left, ok := errors.AsType[*lambdasqs.UnfinishedError](err); !ok || !slices.Equal(left.IDs, []string{"2"}) || left.Of != 2 {
			t.Errorf("%v", err)
		}
		time.Sleep(time.Second)
		delete(f.errs, "2")
		f.handle(event(queue, "1", "2"), nil, "2 2")
	})
}

func TestSettingsThatAreRefused(t *testing.T) {
	t.Parallel()
	h := consumer.HandlerFunc(func(context.Context, *consumer.Message) error { return nil })
	named := func(c lambdasqs.Config) *lambdasqs.Config { c.Name = "billing"; return &c }
	for what, build := range map[string]func() (*lambdasqs.Handler, error){
		"no ledger":  func() (*lambdasqs.Handler, error) { return lambdasqs.New(nil, h, named(lambdasqs.Config{})) },
		"no handler": func() (*lambdasqs.Handler, error) { return lambdasqs.New(memory.New(), nil, named(lambdasqs.Config{})) },
		"no name":    func() (*lambdasqs.Handler, error) { return lambdasqs.New(memory.New(), h, nil) },
		"margin": func() (*lambdasqs.Handler, error) {
			return lambdasqs.New(memory.New(), h, named(lambdasqs.Config{Margin: time.Millisecond}))
		},
		"retention": func() (*lambdasqs.Handler, error) {
			return lambdasqs.New(memory.New(), h, named(lambdasqs.Config{Retention: 15 * 24 * time.Hour}))
		},
		"options": func() (*lambdasqs.Handler, error) {
			return lambdasqs.New(memory.New(), h, named(lambdasqs.Config{Options: consumer.Options{Attempts: -1}}))
		},
		"archive": func() (*lambdasqs.Handler, error) {
			return lambdasqs.New(memory.New(memory.WithLimits(ledger.Limits{Archive: 1 << 20})), h, named(lambdasqs.Config{}))
		},
	} {
		if got, err := build(); err == nil || got != nil {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
}
