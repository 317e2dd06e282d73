package lambdasqs_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/sqs"
	"github.com/ackledger/ackledger/sqs/lambdasqs"
)

func TestNothingBehindAFailureOfItsGroupIsRunOrAcknowledged(t *testing.T) {
	away := errors.New("away")
	for how, end := range map[string]func(ctx context.Context) error{
		"an error": func(context.Context) error { return away },
		"a panic":  func(context.Context) error { panic("away") },
		"a Goexit": func(context.Context) error { runtime.Goexit(); return nil },
		"outlived": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"swallowed": func(ctx context.Context) error {
			_ = memory.InTx(ctx, func(context.Context) error { return away })
			return nil
		},
	} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var f *function
				failing := true
				f = newFunction(t, memory.New(), consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
					_ = f.ran(m)
					if m.ID == "a-2" && failing {
						return end(ctx)
					}
					return nil
				}), &lambdasqs.Config{})
				f.handle(event(fifo, "a-1", "a-2", "b-1", "a-3", "b-2", "a-4"), []string{"a-2", "a-3", "a-4"}, "a-1 1", "a-2 1", "b-1 1", "b-2 1")
				time.Sleep(time.Second) // the visibility timeout
				failing = false
				f.handle(event(fifo, "a-2", "a-3", "a-4"), nil, "a-2 2", "a-3 1", "a-4 1")
			})
		})
	}
}

// What failed for good is acknowledged: it is in the archive. What is behind it comes with the next delivery.
func TestBehindAMessageThatFailsForGood(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFunction(t, memory.New(), nil, &lambdasqs.Config{})
		f.errs["a-1"] = consumer.Terminal(errors.New("no such order"))
		f.handle(event(fifo, "a-1", "a-2"), []string{"a-2"}, "a-1 1")
		f.handle(event(fifo, "a-2"), nil, "a-2 1")
	})
}

// What is behind a failure and was done long before comes again as well: SQS is told of no gap in a group.
func TestADuplicateBehindAFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFunction(t, memory.New(), nil, &lambdasqs.Config{})
		f.handle(event(fifo, "a-2", "b-2"), nil, "a-2 1", "b-2 1")
		f.errs["a-1"] = errors.New("away")
		f.handle(event(fifo, "a-1", "a-2", "b-2"), []string{"a-1", "a-2"}, "a-1 1")
	})
}

// What is archived without a run is a failure as well.
func TestBehindAMessageThatIsGivenUp(t *testing.T) {
	noKey := func(m *consumer.Message) (string, error) {
		if m.ID == "a-1" {
			return "", errors.New("no order number")
		}
		return m.ID, nil
	}
	for why, c := range map[string]struct {
		cfg    lambdasqs.Config
		before func(*testing.T, *function)
	}{
		"its processes crashed": {before: func(t *testing.T, f *function) {
			for range ledger.CrashLimit {
				crash(t, f.ledger, fifo, "a-1")
			}
		}},
		"it has no key": {cfg: lambdasqs.Config{Options: consumer.Options{KeyFunc: noKey}}},
		"it has another body than before": {before: func(_ *testing.T, f *function) {
			e := event(fifo, "a-1")
			e.Records[0].Body = "another one"
			f.handle(e, nil, "a-1 1")
		}},
	} {
		t.Run(why, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFunction(t, memory.New(), nil, &c.cfg)
				if c.before != nil {
					c.before(t, f)
				}
				f.handle(event(fifo, "a-0", "a-1", "a-2", "b-1"), []string{"a-2"}, "a-0 1", "b-1 1")
				f.handle(event(fifo, "a-2"), nil, "a-2 1")
			})
		})
	}
}

// hold claims a message as another process would that takes its time, and returns that process' life in the ledger.
func hold(t *testing.T, l ledger.Ledger, arn, id string, lease time.Duration) ledger.Owner {
	t.Helper()
	owner, err := l.Join(t.Context(), lease)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := owner.Claim(t.Context(), []ledger.Entry{entry(arn, id)})
	if err != nil || claims[0].Answer != ledger.Run && claims[0].Answer != ledger.Spent {
		t.Fatalf("%+v, %v", claims, err)
	}
	return owner
}

func entry(arn, id string) ledger.Entry {
	return ledger.Entry{Key: ledger.Key{Scope: sqs.Scope(arn, "billing"), ID: []byte(id)}, Fingerprint: ledger.BodyFingerprint([]byte("body of " + id)),
		Delivery: []byte(id), Window: lambdasqs.DefaultWindow, Solo: true}
}

// crash claims a message and dies, and has a peer find out.
func crash(t *testing.T, l ledger.Ledger, arn, id string) {
	t.Helper()
	hold(t, l, arn, id, time.Second)
	peer, err := l.Join(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for range 12 {
		time.Sleep(time.Second / 3)
		if _, err := peer.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := peer.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// What somebody else holds is not overtaken.
func TestBehindAMessageThatOthersHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := memory.New()
		other := hold(t, l, fifo, "a-1", 10*time.Minute)
		f := newFunction(t, l, nil, &lambdasqs.Config{})
		f.handle(event(fifo, "a-0", "a-1", "a-2", "b-1"), []string{"a-1", "a-2"}, "a-0 1", "b-1 1")
		if err := other.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.handle(event(fifo, "a-1", "a-2"), nil, "a-1 1", "a-2 1")
	})
}

// A group runs in its order, one message at a time, and waits for no other group.
func TestOrderWithinAGroupAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var f *function
		others, running := make(chan struct{}), map[string]bool{}
		f = newFunction(t, memory.New(), consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
			f.mu.Lock()
			if running[m.Group] {
				t.Errorf("%s runs beside another one of its group", m.ID)
			}
			running[m.Group] = true
			f.mu.Unlock()
			if m.ID == "a-00" {
				<-others
			}
			if m.ID == "b-19" {
				close(others)
			}
			time.Sleep(time.Millisecond)
			f.mu.Lock()
			running[m.Group] = false
			f.mu.Unlock()
			return f.ran(m)
		}), &lambdasqs.Config{Options: consumer.Options{Concurrency: 2}})
		var ids []string
		for i := range 20 {
			ids = append(ids, fmt.Sprintf("a-%02d", i), fmt.Sprintf("b-%02d", i))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := f.handler.Handle(ctx, event(fifo, ids...))
		if err != nil || len(out.BatchItemFailures) > 0 || len(f.runs) != 40 {
			t.Fatalf("%q, %v, %d runs", names(out), err, len(f.runs))
		}
		for _, group := range []string{"a", "b"} {
			own := slices.DeleteFunc(slices.Clone(f.runs), func(id string) bool { return !strings.HasPrefix(id, group) })
			if !slices.IsSorted(own) {
				t.Errorf("group %s ran in the order %q", group, own)
			}
		}
	})
}

// batchFunc is a batch handler.
type batchFunc func(ctx context.Context, batch []*consumer.Message) []error

func (batchFunc) BatchSize() int { return 10 }

func (batchFunc) Handle(context.Context, *consumer.Message) error {
	return errors.New("a batch handler was called for one message")
}

func (f batchFunc) HandleBatch(ctx context.Context, batch []*consumer.Message) []error {
	return f(ctx, batch)
}

// Of a batch, each message stops its own group; a batch that comes to nothing as a whole stops none until its messages have run alone.
func TestBatchesOfGroups(t *testing.T) {
	for how, end := range map[string]func(bad int, batch []*consumer.Message) []error{
		"an error": func(bad int, batch []*consumer.Message) []error {
			errs := make([]error, len(batch))
			errs[bad] = errors.New("away")
			return errs
		},
		"a panic": func(int, []*consumer.Message) []error { panic("away") },
		"no answer for each": func(_ int, batch []*consumer.Message) []error {
			return make([]error, len(batch)+1)
		},
	} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFunction(t, memory.New(), batchFunc(func(_ context.Context, batch []*consumer.Message) []error {
					if bad := slices.IndexFunc(batch, func(m *consumer.Message) bool { return m.ID == "a-1" }); bad >= 0 {
						return end(bad, batch)
					}
					return nil
				}), &lambdasqs.Config{})
				f.handle(event(fifo, "a-1", "a-2", "b-1", "b-2"), []string{"a-1", "a-2"})
				for _, id := range []string{"a-2", "b-2"} {
					if recs, err := f.ledger.(*memory.Ledger).Find(t.Context(), sqs.Scope(fifo, "billing"), []byte(id)); err != nil ||
						(len(recs) == 1 && recs[0].State == ledger.Succeeded) != (id == "b-2") {
						t.Errorf("message %s in the ledger: %+v, %v", id, recs, err)
					}
				}
			})
		})
	}
}
