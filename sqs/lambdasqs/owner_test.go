package lambdasqs_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/lambdasqs"
)

// record returns what the ledger has of a message of the queue.
func (f *function) record(id string) ledger.Record {
	f.t.Helper()
	recs, err := f.ledger.(interface {
		Find(context.Context, string, []byte) ([]ledger.Record, error)
	}).Find(f.t.Context(), sqs.Scope(queue, "billing"), []byte(id))
	if err != nil || len(recs) != 1 {
		f.t.Fatalf("message %s in the ledger: %+v, %v", id, recs, err)
	}
	return recs[0]
}

// What a killed invocation held runs in the invocation that gets it next: as soon as the lease is over and this one has lived for a
// lease. The attempt does not count, the crash does.
func TestTheTakeOverOfAKilledInvocation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := memory.New()
		hold(t, l, queue, "1", lambdasqs.DefaultLease)
		f := newFunction(t, l, nil, &lambdasqs.Config{})
		began := time.Now()
		f.handle(event(queue, "1", "2"), nil, "1 1", "2 1")
		if took := time.Since(began); took < lambdasqs.DefaultLease || took > 2*lambdasqs.DefaultLease {
			t.Errorf("took %s, with a lease of %s", took, lambdasqs.DefaultLease)
		}
		if r := f.record("1"); r.State != ledger.Succeeded || r.Crashes != 1 || r.Token != 2 {
			t.Errorf("in the ledger: %+v", r)
		}
	})
}

// leases is a ledger that keeps for how long it was joined.
type leases struct {
	*memory.Ledger
	got []time.Duration
}

func (l *leases) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	l.got = append(l.got, lease)
	return l.Ledger.Join(ctx, lease)
}

// The lease leaves time for two more of it, or nobody could take over within an invocation.
func TestTheLeaseIsAThirdOfTheInvocationAtMost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := &leases{Ledger: memory.New()}
		f := newFunction(t, l, nil, &lambdasqs.Config{Options: consumer.Options{Lease: time.Minute}})
		for _, limit := range []time.Duration{500 * time.Millisecond, 30 * time.Second, 15 * time.Minute} {
			if again, err := f.within(limit, event(queue, limit.String())); err != nil || len(again) > 0 {
				t.Errorf("%q, %v", again, err)
			}
		}
		if want := []time.Duration{500 * time.Millisecond / 3, 10 * time.Second, time.Minute}; !slices.Equal(l.got, want) {
			t.Errorf("leases %v, want %v", l.got, want)
		}
	})
}

// When the response is sent, nobody is in the ledger any more: a process that is frozen then loses nothing.
func TestAnInvocationLeavesTheLedger(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := memory.New()
		f := newFunction(t, l, nil, &lambdasqs.Config{})
		f.errs["2"] = errors.New("away")
		f.handle(event(queue, "1", "2"), []string{"2"}, "1 1", "2 1")
		if s, err := l.Stats(t.Context()); err != nil || s.Owners.Live != 0 {
			t.Errorf("%+v, %v", s, err)
		}
		time.Sleep(24 * time.Hour) // frozen
		delete(f.errs, "2")
		f.handle(event(queue, "2"), nil, "2 2")
		if r := f.record("2"); r.Crashes != 0 {
			t.Errorf("in the ledger: %+v", r)
		}
	})
}

// A transaction that commits is the message's success, whatever its handler says behind it. One that fails is a failure.
func TestTransactionsOfHandlers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var f *function
		away := errors.New("away")
		f = newFunction(t, memory.New(), consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
			if err := memory.InTx(ctx, func(context.Context) error { return f.ran(m) }); err != nil {
				return err
			}
			return away
		}), &lambdasqs.Config{})
		f.errs["2"] = away
		f.handle(event(queue, "1", "2"), []string{"2"}, "1 1", "2 1")
		time.Sleep(time.Second)
		delete(f.errs, "2")
		f.handle(event(queue, "1", "2"), nil, "2 2")
	})
}

// A handler knows its invocation, as by its request id.
func TestHandlersSeeTheInvocationsValues(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var id string
		f := newFunction(t, memory.New(), consumer.HandlerFunc(func(ctx context.Context, _ *consumer.Message) error {
			if lc, ok := lambdacontext.FromContext(ctx); ok {
				id = lc.AwsRequestID
			}
			return nil
		}), &lambdasqs.Config{})
		ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "request 7"})
		if out, err := f.handler.Handle(ctx, event(queue, "1")); err != nil || len(out.BatchItemFailures) > 0 || id != "request 7" {
			t.Errorf("%q, %v, the handler saw %q", names(out), err, id)
		}
	})
}

// Whoever ends the invocation early has what runs given back at once.
func TestAnInvocationThatIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		f := newFunction(t, memory.New(), consumer.HandlerFunc(func(ctx context.Context, _ *consumer.Message) error {
			cancel()
			<-ctx.Done()
			return context.Cause(ctx)
		}), &lambdasqs.Config{})
		began := time.Now()
		out, err := f.handler.Handle(ctx, event(queue, "1"))
		if err != nil || !slices.Equal(names(out), []string{"1"}) || time.Since(began) > time.Second {
			t.Errorf("%q, %v, after %s", names(out), err, time.Since(began))
		}
		if r := f.record("1"); r.State != ledger.Pending || r.Owner != "" || r.Attempts != 0 {
			t.Errorf("in the ledger: %+v", r)
		}
	})
}
