package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/consumer/consumertest"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// claimed is the context of an attempt that has claimed a message of a ledger.
func claimed(t *testing.T, o ledger.Owner, id string) context.Context {
	t.Helper()
	key := ledger.Key{Scope: "s", ID: []byte(id)}
	claims, err := o.Claim(t.Context(), []ledger.Entry{{Key: key, Fingerprint: ledger.BodyFingerprint(nil), Delivery: []byte("d"), Window: time.Hour}})
	if err != nil || claims[0].Answer != ledger.Run {
		t.Fatalf("claim: %+v, %v", claims, err)
	}
	ctx := ledger.WithAttempt(t.Context(), ledger.NewAttempt(o, claims[0].Ticket))
	return consumer.WithDelivery(ctx, &consumer.Delivery{Key: key.Sum(), Token: claims[0].Token})
}

func joined(t *testing.T, l ledger.Ledger) ledger.Owner {
	t.Helper()
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestStepLost: who has lost the message records nothing, and is told. Who took it over makes the call.
func TestStepLost(t *testing.T) {
	t.Parallel()
	l := memory.New()
	stale, o := joined(t, l), joined(t, l)
	var c calls
	ctx := claimed(t, stale, "m")
	_, err := consumer.Step(ctx, "charge", func(ctx context.Context, key string) (string, error) {
		l.Declare(stale.ID())
		if _, err := consumer.Step(claimed(t, o, "m"), "charge", c.make("charge")); err != nil {
			t.Errorf("the new owner: %v", err)
		}
		return "stale", nil
	})
	if !ledger.IsLost(err) || ledger.Unavailable(err) || c.of("charge") != 1 {
		t.Errorf("%v; %d calls of the new owner", err, c.of("charge"))
	}
}

// TestStepAnswerLost: a recording without an answer is repeated, also when the handler's context has ended, until it holds.
func TestStepAnswerLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		ctx, cancel := context.WithCancel(claimed(t, joined(t, l), "m"))
		var tries int
		l.FailAfter(func(_ context.Context, op memory.Op) error {
			if op == memory.Settle {
				if tries++; tries < 4 {
					return errors.New("reset")
				}
			}
			return nil
		})
		got, err := consumer.Step(ctx, "charge", func(context.Context, string) (int, error) {
			cancel()
			return 7, nil
		})
		if err != nil || got != 7 || tries != 4 {
			t.Fatalf("%d, %v after %d tries", got, err, tries)
		}
		// A ledger that does not answer at all is given up, as an outage.
		l.FailAfter(func(context.Context, memory.Op) error { return errors.New("away") })
		began := time.Now()
		_, err = consumer.Step(ctx, "ship", func(context.Context, string) (int, error) { return 8, nil })
		if took := time.Since(began); !ledger.Unavailable(err) || !strings.Contains(err.Error(), "the call was made") || took < 29*time.Second || took > 31*time.Second {
			t.Fatalf("%v after %s", err, took)
		}
	})
}

// unread is a ledger whose steps cannot be read while it is away.
type unread struct {
	ledger.Ledger
	away atomic.Bool
}

func (l *unread) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o, err := l.Ledger.Join(ctx, lease)
	return &unreadOwner{o, l}, err
}

type unreadOwner struct {
	ledger.Owner
	l *unread
}

func (o *unreadOwner) Unwrap() ledger.Owner { return o.Owner }

func (o *unreadOwner) Steps(ctx context.Context, t ledger.Ticket) ([]ledger.Step, error) {
	if o.l.away.Load() {
		return nil, errors.New("away")
	}
	return ledger.ReadSteps(ctx, o.Owner, t)
}

// TestStepOutageIsNotCounted: an attempt that could not read its steps is repeated without being counted.
func TestStepOutageIsNotCounted(t *testing.T) {
	t.Parallel()
	l := &unread{Ledger: memory.New()}
	var c calls
	var attempts []int
	b := consumertest.New(t, consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		attempts = append(attempts, m.Attempt)
		if len(attempts) == 1 {
			return errLater
		}
		l.away.Store(len(attempts) == 2)
		_, err := consumer.Step(ctx, "charge", c.make("charge"))
		return err
	}), consumertest.Settings{Ledger: l})
	for n := range 3 {
		r := b.Deliver(consumer.Message{ID: "m"})
		if n == 1 && !ledger.Unavailable(r.Err) {
			t.Errorf("%+v, want an outage", r)
		}
	}
	if fmt.Sprint(attempts) != "[1 2 2]" || c.of("charge") != 1 {
		t.Errorf("attempts %v, %d calls", attempts, c.of("charge"))
	}
}

// counting counts the calls of Settle.
type counting struct {
	ledger.Owner
	calls atomic.Int32
	open  chan struct{}
}

func (o *counting) Unwrap() ledger.Owner { return o.Owner }

func (o *counting) Settle(ctx context.Context, s []ledger.Settlement) ([]error, error) {
	o.calls.Add(1)
	if o.open != nil {
		<-o.open
	}
	return o.Owner.Settle(ctx, s)
}

// TestStepWrites: a step is one write of the ledger, and steps of many handlers at once are few.
func TestStepWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const handlers = 100
		below := &counting{Owner: joined(t, memory.New())}
		o := ledger.Group(below, ledger.GroupConfig{Flushes: 2})
		one := func(context.Context, string) (int, error) { return 1, nil }
		ctx := claimed(t, o, "alone")
		for i := range 10 {
			if _, err := consumer.Step(ctx, fmt.Sprint(i), one); err != nil {
				t.Fatal(err)
			}
		}
		if n := below.calls.Swap(0); n != 10 {
			t.Errorf("%d writes of 10 steps, one after the other", n)
		}
		below.open = make(chan struct{})
		var wg sync.WaitGroup
		for i := range handlers {
			ctx := claimed(t, o, fmt.Sprint(i))
			wg.Go(func() {
				if _, err := consumer.Step(ctx, "charge", one); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait() // two flushes are on their way, the others wait
		close(below.open)
		wg.Wait()
		if n := below.calls.Load(); n != 3 {
			t.Errorf("%d writes of %d steps at once, want 3", n, handlers)
		}
	})
}
