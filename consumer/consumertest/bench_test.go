package consumertest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/consumer/consumertest"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

func order(body string) consumer.Message {
	return consumer.Message{ID: "order-1", Body: []byte(body)}
}

func TestARedeliveryIsAnsweredByTheLedger(t *testing.T) {
	bench := consumertest.New(t, consumer.HandlerFunc(func(ctx context.Context, _ *consumer.Message) error {
		return consumer.SetResult(ctx, []byte("receipt"))
	}))
	first, second := bench.Deliver(order("x")), bench.Deliver(order("x"))
	if first.Answer != ledger.Run || first.Runs != 1 || !first.Acked {
		t.Errorf("first: %+v", first)
	}
	if second.Answer != ledger.Done || second.Runs != 0 || !second.Acked || string(second.Outcome.Result) != "receipt" {
		t.Errorf("second: %+v", second)
	}
}

func TestAFailedAttemptIsRunAgain(t *testing.T) {
	attempts := 0
	failure := errors.New("downstream is away")
	bench := consumertest.New(t, consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
		if attempts++; attempts != m.Attempt {
			t.Errorf("attempt %d says it is number %d", attempts, m.Attempt)
		}
		if attempts == 1 {
			return failure
		}
		return nil
	}))
	if r := bench.Deliver(order("x")); r.Acked || !errors.Is(r.Err, failure) {
		t.Errorf("first: %+v", r)
	}
	if r := bench.Deliver(order("x")); !r.Acked || r.Runs != 1 || r.Err != nil {
		t.Errorf("second: %+v", r)
	}
}

func TestACrashAfterTheEffectRunsAgainWithTheSameChildKey(t *testing.T) {
	charged := map[string]int{}
	tokens := []uint64{}
	bench := consumertest.New(t, consumer.HandlerFunc(func(ctx context.Context, _ *consumer.Message) error {
		charged[consumer.ChildKey(ctx, "charge")]++
		tokens = append(tokens, consumer.Token(ctx))
		return nil
	}))
	if r := bench.Crash(order("x")); r.Acked || r.Runs != 1 {
		t.Errorf("crash: %+v", r)
	}
	if r := bench.Deliver(order("x")); !r.Acked || r.Runs != 1 {
		t.Errorf("redelivery: %+v", r)
	}
	if len(charged) != 1 || len(tokens) != 2 || tokens[0] >= tokens[1] {
		t.Errorf("charged %v with tokens %v", charged, tokens)
	}
}

func TestACrashAfterInTxDoesNotRunAgain(t *testing.T) {
	charged := 0
	bench := consumertest.New(t, consumer.HandlerFunc(func(ctx context.Context, _ *consumer.Message) error {
		return memory.InTx(ctx, func(context.Context) error { charged++; return nil })
	}))
	bench.Crash(order("x"))
	if r := bench.Deliver(order("x")); !r.Acked || r.Runs != 0 || r.Answer != ledger.Done || charged != 1 {
		t.Errorf("redelivery: %+v, charged %d times", r, charged)
	}
}

func TestAnotherBodyUnderAKnownIDIsAMismatch(t *testing.T) {
	bench := consumertest.New(t, consumer.HandlerFunc(func(context.Context, *consumer.Message) error { return nil }))
	bench.Deliver(order("x"))
	if r := bench.Redrive(order("another")); r.Answer != ledger.Mismatch || r.Runs != 0 || !r.Acked {
		t.Errorf("mismatch: %+v", r)
	}
}

func TestARedriveOfAFailedMessageRunsAgain(t *testing.T) {
	broken := true
	bench := consumertest.New(t, consumer.HandlerFunc(func(context.Context, *consumer.Message) error {
		if broken {
			return consumer.Terminal(errors.New("no such product"))
		}
		return nil
	}))
	if r := bench.Deliver(order("x")); !r.Acked {
		t.Errorf("terminal failure: %+v", r)
	}
	if r := bench.Deliver(order("x")); r.Answer != ledger.Done || r.Runs != 0 {
		t.Errorf("redelivery of a failed message: %+v", r)
	}
	broken = false
	if r := bench.Redrive(order("x")); r.Answer != ledger.Run || r.Runs != 1 || !r.Acked {
		t.Errorf("redrive: %+v", r)
	}
}

func TestAPanicIsAFailedAttempt(t *testing.T) {
	bench := consumertest.New(t, consumer.HandlerFunc(func(context.Context, *consumer.Message) error { panic("boom") }))
	if r := bench.Deliver(order("x")); r.Acked || r.Err == nil || !strings.Contains(r.Err.Error(), "boom") || r.Runs != 1 {
		t.Errorf("panic: %+v", r)
	}
}

// failing is a test that is told to fail.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// A message whose retry is far away fails its test at once, with what to do. With the ledger's clock moved on it runs.
func TestADistantRetry(t *testing.T) {
	var late atomic.Int64
	l := memory.New(memory.WithClock(func() time.Time { return time.Now().Add(time.Duration(late.Load())) }))
	runs := 0
	handler := consumer.HandlerFunc(func(context.Context, *consumer.Message) error {
		if runs++; runs == 1 {
			return consumer.RetryAfter(errors.New("closed"), time.Hour)
		}
		return nil
	})
	tb := &failing{TB: t}
	bench := consumertest.New(tb, handler, consumertest.Settings{Ledger: l})
	bench.Deliver(order("x"))
	var wg sync.WaitGroup
	wg.Go(func() { bench.Deliver(order("x")) })
	wg.Wait()
	if !strings.Contains(tb.text, "message order-1 waits for its retry, which is due in ") || !strings.Contains(tb.text, "memory.WithClock") {
		t.Errorf("a retry in an hour: %q", tb.text)
	}
	late.Store(int64(time.Hour))
	second := consumertest.New(t, handler, consumertest.Settings{Ledger: l})
	if r := second.Deliver(order("x")); !r.Acked || r.Runs != 1 || r.Err != nil {
		t.Errorf("an hour later: %+v", r)
	}
}
