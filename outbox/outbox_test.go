package outbox_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/outbox"
)

// counted is a target that counts.
type counted struct{ n atomic.Int64 }

func (c *counted) Source(context.Context) (string, error) { return "", nil }

func (c *counted) Publish(_ context.Context, messages []consumer.Publication) []error {
	c.n.Add(int64(len(messages)))
	return nil
}

func publish(ctx context.Context, l *memory.Ledger, id string) error {
	o, err := l.Join(ctx, time.Minute)
	if err != nil {
		return err
	}
	claims, err := o.Claim(ctx, []ledger.Entry{{Key: ledger.Key{Scope: "s", ID: []byte(id)}, Delivery: []byte(id),
		Fingerprint: ledger.BodyFingerprint([]byte(id)), Window: time.Hour}})
	if err != nil {
		return err
	}
	return memory.InTx(ledger.WithAttempt(ctx, ledger.NewAttempt(o, claims[0].Ticket)), func(ctx context.Context) error {
		return consumer.Publish(ctx, ledger.Outgoing{Target: "orders", Body: []byte(id)})
	})
}

func TestWorker(t *testing.T) {
	t.Parallel()
	l, target := memory.New(), &counted{}
	w, err := outbox.New(l, consumer.Relay{Targets: map[string]consumer.Publisher{"orders": target}, Interval: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: not within a minute", what)
			}
		}
	}
	w.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	for round := range int64(3) {
		if err := publish(t.Context(), l, fmt.Sprint(round)); err != nil {
			t.Fatal(err)
		}
		if n := target.n.Load(); n != round || w.Health().Ready {
			t.Fatalf("paused: %d were sent, want %d; ready: %v", n, round, w.Health().Ready)
		}
		w.Resume()
		until("it is sent", func() bool { return target.n.Load() == round+1 && w.Health().Ready })
		w.Pause()
		w.Pause()
		until("it rests", func() bool { return !w.Health().Ready })
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); err == nil {
		t.Error("Run a second time: no error")
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	if _, err := outbox.New(nil, consumer.Relay{}); err == nil {
		t.Error("no ledger: no error")
	}
	if _, err := outbox.New(memory.New(), consumer.Relay{}); err == nil {
		t.Error("no target: no error")
	}
}

func ExampleNew() {
	l := memory.New()                                                                                     // as a rule that of the workers which publish: postgres.New
	w, err := outbox.New(l, consumer.Relay{Targets: map[string]consumer.Publisher{"orders": &counted{}}}) // as a rule kafka.NewPublisher
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	fmt.Println(consumer.Run(ctx, w))
	// Output: <nil>
}
