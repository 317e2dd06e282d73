package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/consumer/consumertest"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

var errLater = errors.New("later")

// calls counts outside calls, and notes their keys.
type calls struct {
	mu   sync.Mutex
	keys map[string][]string // by name
}

// make makes a call's function; it answers with its name.
func (c *calls) make(name string) func(context.Context, string) (string, error) {
	return func(_ context.Context, key string) (string, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.keys == nil {
			c.keys = map[string][]string{}
		}
		c.keys[name] = append(c.keys[name], key)
		return "done " + name, nil
	}
}

func (c *calls) of(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.keys[name])
}

// TestStepIsGivenBack: after a failure and after a crash an attempt gets what was recorded, in another order as well, and makes
// only the calls that nobody made.
func TestStepIsGivenBack(t *testing.T) {
	t.Parallel()
	var c calls
	order := []string{"charge", "ship"}
	var fail error
	b := consumertest.New(t, consumer.HandlerFunc(func(ctx context.Context, _ *consumer.Message) error {
		for _, name := range order {
			got, err := consumer.Step(ctx, name, c.make(name))
			if err != nil || got != "done "+name {
				return fmt.Errorf("step %s: %q: %w", name, got, err)
			}
			if keys := c.keys[name]; keys[len(keys)-1] != consumer.ChildKey(ctx, name) {
				return fmt.Errorf("step %s had the key %s", name, keys[len(keys)-1])
			}
		}
		return fail
	}))
	m := consumer.Message{ID: "m"}
	fail = errLater
	if r := b.Deliver(m); !errors.Is(r.Err, errLater) {
		t.Fatalf("first: %+v", r)
	}
	order = []string{"notify", "ship", "charge"}
	if r := b.Crash(m); !errors.Is(r.Err, errLater) {
		t.Fatalf("crash: %+v", r)
	}
	order, fail = []string{"charge@v2", "notify", "charge", "ship"}, nil
	if r := b.Deliver(m); r.Err != nil || !r.Acked {
		t.Fatalf("last: %+v", r)
	}
	for _, name := range []string{"charge", "ship", "notify", "charge@v2"} {
		if n := c.of(name); n != 1 {
			t.Errorf("%s was called %d times", name, n)
		}
	}
}

// TestStepErrors: a plain error is not kept. A terminal one is, with its text, also over a redrive.
func TestStepErrors(t *testing.T) {
	t.Parallel()
	var made int
	answer := errLater
	b := consumertest.New(t, consumer.HandlerFunc(func(ctx context.Context, _ *consumer.Message) error {
		_, err := consumer.Step(ctx, "charge", func(context.Context, string) (int, error) {
			made++
			return 7, answer
		})
		return err
	}))
	m := consumer.Message{ID: "m", Body: []byte("the body of m")}
	if r := b.Deliver(m); !errors.Is(r.Err, errLater) || made != 1 {
		t.Fatalf("first: %+v, %d calls", r, made)
	}
	answer = consumer.Terminal(errors.New("card 1 of the body of m is blocked"))
	if r := b.Deliver(m); !errors.Is(r.Err, answer) || !r.Acked || made != 2 {
		t.Fatalf("second: %+v, %d calls", r, made)
	}
	answer = nil
	r := b.Redrive(m)
	if made != 2 || !consumer.IsTerminal(r.Err) || !strings.Contains(r.Err.Error(), `step "charge"`) ||
		!strings.Contains(r.Err.Error(), "card 1 of [body] is blocked") {
		t.Fatalf("redriven: %+v, %d calls", r, made)
	}
}

// TestStepCutShort: a call that ends with its context has not failed for good, whatever it is wrapped in.
func TestStepCutShort(t *testing.T) {
	t.Parallel()
	made := 0
	b := consumertest.New(t, consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		_, err := consumer.Step(ctx, "charge", func(context.Context, string) (int, error) {
			if made++; made == 1 {
				return 0, consumer.Terminal(context.DeadlineExceeded)
			}
			return 7, nil
		})
		if made == 1 {
			return errLater
		}
		return err
	}))
	b.Deliver(consumer.Message{ID: "m"})
	if r := b.Deliver(consumer.Message{ID: "m"}); r.Err != nil || made != 2 {
		t.Fatalf("%+v, %d calls", r, made)
	}
}

// TestStepResultCannotBeKept: what is too long or no JSON was called for all the same, and is not called for again.
func TestStepResultCannotBeKept(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]any{"long": strings.Repeat("x", ledger.MaxStepResult), "odd": make(chan int)} {
		made := 0
		b := consumertest.New(t, consumer.HandlerFunc(func(ctx context.Context, _ *consumer.Message) error {
			_, err := consumer.Step(ctx, name, func(context.Context, string) (any, error) {
				made++
				return result, nil
			})
			return err
		}))
		m := consumer.Message{ID: "m"}
		for _, r := range []consumertest.Result{b.Deliver(m), b.Redrive(m)} {
			if !consumer.IsTerminal(r.Err) || !strings.Contains(r.Err.Error(), "the call was made, and its result cannot be kept") || made != 1 {
				t.Errorf("%s: %+v, %d calls", name, r, made)
			}
		}
	}
}

func TestStepResultOfAnotherType(t *testing.T) {
	t.Parallel()
	var texts calls
	b := consumertest.New(t, consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		if m.Attempt == 1 {
			_, err := consumer.Step(ctx, "charge", texts.make("charge"))
			return errors.Join(errLater, err)
		}
		_, err := consumer.Step(ctx, "charge", func(context.Context, string) (int, error) { return 0, errors.New("called again") })
		return err
	}))
	b.Deliver(consumer.Message{ID: "m"})
	r := b.Deliver(consumer.Message{ID: "m"})
	if r.Err == nil || !strings.Contains(r.Err.Error(), `step "charge": its recorded result does not fit int`) || consumer.IsTerminal(r.Err) {
		t.Fatalf("%+v", r)
	}
}

// TestStepNames: what is wrong with a name, or with how many there are, is said before anything is called.
func TestStepNames(t *testing.T) {
	t.Parallel()
	var c calls
	var errs []error
	b := consumertest.New(t, consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		errs = nil
		if m.Attempt == 2 { // when all are known and none has begun
			if _, err := consumer.Step(ctx, "new", c.make("new")); err == nil {
				return errors.New("a step too many at the beginning")
			}
		}
		for _, name := range []string{"", "a b", strings.Repeat("x", ledger.MaxStepName+1), "0", "0"} {
			_, err := consumer.Step(ctx, name, c.make(name))
			errs = append(errs, err)
		}
		for i := 1; i <= ledger.MaxSteps; i++ {
			name := fmt.Sprint(i)
			if m.Attempt == 2 {
				name = fmt.Sprint(ledger.MaxSteps - i) // those that are recorded, in another order
			}
			_, err := consumer.Step(ctx, name, c.make(name))
			if name != "0" && (i < ledger.MaxSteps) != (err == nil) {
				return fmt.Errorf("attempt %d: step %s: %w", m.Attempt, name, err)
			}
			errs = append(errs, err)
		}
		if m.Attempt == 2 {
			_, err := consumer.Step(ctx, "new", c.make("new"))
			errs = append(errs, err)
		}
		return errLater
	}))
	for attempt := 1; attempt <= 2; attempt++ {
		r := b.Deliver(consumer.Message{ID: "m"})
		if !errors.Is(r.Err, errLater) {
			t.Fatal(r.Err)
		}
		for _, i := range []int{0, 1, 2, 4, len(errs) - 1} {
			if _, invalid := errors.AsType[*ledger.InvalidError](errs[i]); !invalid {
				t.Errorf("attempt %d: error %d: %v", attempt, i, errs[i])
			}
		}
	}
	for i := range ledger.MaxSteps {
		if n := c.of(fmt.Sprint(i)); n != 1 {
			t.Errorf("step %d was called %d times", i, n)
		}
	}
	if n := len(c.keys); n != ledger.MaxSteps {
		t.Errorf("%d names were called", n)
	}
}

// TestStepInABatch: each message of a batch has its own steps, and none is repeated when the batch comes to nothing and its messages
// run one by one under the same claims.
func TestStepInABatch(t *testing.T) {
	t.Parallel()
	var c calls
	var runs atomic.Int32
	b := consumertest.New(t, consumer.Batch(2, func(ctx context.Context, batch []*consumer.Message) []error {
		if _, err := consumer.Step(ctx, "charge", c.make("whole")); !errors.Is(err, ledger.ErrNoAttempt) {
			panic(fmt.Sprint("with the batch's context: ", err))
		}
		for _, m := range batch {
			got, err := consumer.Step(consumer.For(ctx, m), "charge", c.make(m.ID))
			if err != nil || got != "done "+m.ID {
				return []error{fmt.Errorf("%s got %q: %w", m.ID, got, err)}
			}
		}
		runs.Add(1)
		if len(batch) > 1 {
			panic("spoilt")
		}
		return nil
	}))
	for _, r := range b.DeliverAll(consumer.Message{ID: "a"}, consumer.Message{ID: "b"}) {
		if r.Err != nil || !r.Acked {
			t.Errorf("%+v", r)
		}
	}
	if c.of("a") != 1 || c.of("b") != 1 || runs.Load() < 2 {
		t.Errorf("a was called %d times, b %d times, in %d runs", c.of("a"), c.of("b"), runs.Load())
	}
}

func TestStepWhereItMayNotBe(t *testing.T) {
	t.Parallel()
	var c calls
	if _, err := consumer.Step(t.Context(), "charge", c.make("outside")); !errors.Is(err, ledger.ErrNoAttempt) {
		t.Errorf("outside of a handler: %v", err)
	}
	var kept context.Context
	b := consumertest.New(t, consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		kept = ctx
		if m.ID == "plain" {
			return nil
		}
		return memory.InTx(ctx, func(ctx context.Context) error {
			_, err := consumer.Step(ctx, "charge", c.make("inside"))
			return err
		})
	}))
	if r := b.Deliver(consumer.Message{ID: "m"}); !errors.Is(r.Err, ledger.ErrStepInTx) || consumer.IsTerminal(r.Err) {
		t.Errorf("inside of InTx: %+v", r)
	}
	b.Deliver(consumer.Message{ID: "plain"})
	if _, err := consumer.Step(kept, "charge", c.make("after")); !errors.Is(err, ledger.ErrSettled) {
		t.Errorf("after the handler has returned: %v", err)
	}
	if len(c.keys) != 0 {
		t.Errorf("called: %v", c.keys)
	}
}
