package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

var errBoom = errors.New("boom")

// runOne offers one message to a handler, waits for two hours of retries, and returns what became of it.
func runOne(t *testing.T, o consumer.Options, h consumer.HandlerFunc, limits ...ledger.Limits) (ledger.Record, *broker, *engine.Item) {
	t.Helper()
	l := memory.New()
	if len(limits) > 0 {
		l = memory.New(memory.WithLimits(limits[0]))
	}
	e, b := begin(t, l, o, h)
	it := item("one", "")
	e.Offer([]*engine.Item{it})
	pass(2 * time.Hour)
	end(t, e)
	return state(t, l, it), b, it
}

func TestRetriesUntilSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts []int
		var at []time.Time
		rec, b, it := runOne(t, options(), func(_ context.Context, m *consumer.Message) error {
			attempts, at = append(attempts, m.Attempt), append(at, time.Now())
			if m.Attempt < 4 {
				return errBoom
			}
			return nil
		})
		b.wantAcked(t, it)
		if fmt.Sprint(attempts) != "[1 2 3 4]" || rec.State != ledger.Succeeded || rec.Attempts != 3 || rec.Token != 4 || len(rec.Errors) != 3 {
			t.Errorf("attempts %v, row %+v", attempts, rec)
		}
		for i := 1; i < len(at); i++ { // full jitter below 1 s, 2 s, 4 s, and a little to ask
			if gap, most := at[i].Sub(at[i-1]), time.Second<<(i-1)+100*time.Millisecond; gap > most {
				t.Errorf("retry %d after %s, at most %s", i, gap, most)
			}
		}
	})
}

func TestExhaustedIsArchived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options()
		o.Attempts = 3
		runs := 0
		rec, b, it := runOne(t, o, func(context.Context, *consumer.Message) error { runs++; return errBoom })
		b.wantAcked(t, it)
		if runs != 3 || rec.State != ledger.Failed || len(rec.Archived) != 1 {
			t.Fatalf("%d runs, row %v, %d archived", runs, rec.State, len(rec.Archived))
		}
		a := rec.Archived[0]
		if a.Kind != ledger.KindExhausted || len(a.Errors) != 3 || a.Errors[2].Error != "boom" || a.Errors[2].Attempt != 3 || a.Attempts != 3 {
			t.Errorf("archive %+v", a)
		}
		if string(a.Body) != "body of one" || string(a.Delivery) != "delivery one" || a.Source != "source" || a.Sent {
			t.Errorf("archive %+v", a)
		}
	})
}

// The handler upper-cases the body in place and fails: the right row is settled all the same, the archive has the
// original bytes, and the next attempt in this process gets the original too.
func TestPitfall16_ChangedInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options()
		o.Attempts = 2
		l := memory.New()
		var seen []string
		e, b := begin(t, l, o, func(_ context.Context, m *consumer.Message) error {
			seen = append(seen, string(m.Body)+string(m.Headers[0].Value)+string(m.Key))
			copy(m.Body, bytes.ToUpper(m.Body))
			copy(m.Headers[0].Value, "X")
			copy(m.Key, "X")
			m.Headers[0].Name, m.ID, m.Source, m.Group = "changed", "changed", "changed", "changed"
			m.Headers = append(m.Headers, consumer.Header{Name: "more"})
			return errBoom
		})
		it := item("one", "")
		it.Msg.Headers, it.Msg.Key = []consumer.Header{{Name: "h", Value: []byte("v")}}, []byte("k")
		it.Original = func(*engine.Item) engine.Content {
			return engine.Content{
				Key: []byte("k"), Body: []byte("body of one"), Headers: []ledger.Header{{Name: "h", Value: []byte("v")}},
			}
		}
		e.Offer([]*engine.Item{it})
		pass(time.Hour)
		end(t, e)
		b.wantAcked(t, it)
		rec := state(t, l, it)
		if rec.State != ledger.Failed || len(rec.Archived) != 1 {
			t.Fatalf("row %v, %d archived", rec.State, len(rec.Archived))
		}
		a := rec.Archived[0]
		if string(a.Body) != "body of one" || len(a.Headers) != 1 || a.Headers[0].Name != "h" || string(a.Headers[0].Value) != "v" || a.Source != "source" || a.Group != "k" {
			t.Errorf("archive %+v", a)
		}
		if fmt.Sprint(seen) != "[body of onevk body of onevk]" {
			t.Errorf("attempts saw %v", seen)
		}
	})
}

func TestTerminalFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		rec, b, it := runOne(t, options(), func(context.Context, *consumer.Message) error { runs++; return consumer.Terminal(errBoom) })
		b.wantAcked(t, it)
		if runs != 1 || rec.State != ledger.Failed || rec.Archived[0].Kind != ledger.KindTerminal {
			t.Errorf("%d runs, %+v", runs, rec)
		}
	})
}

func TestRetryAfterIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		rec, b, it := runOne(t, options(), func(context.Context, *consumer.Message) error {
			if at = append(at, time.Now()); len(at) == 1 {
				return consumer.RetryAfter(errBoom, 90*time.Minute)
			}
			return nil
		})
		b.wantAcked(t, it)
		if gap := at[1].Sub(at[0]); gap < 90*time.Minute || gap > 91*time.Minute || rec.Attempts != 1 {
			t.Errorf("retried after %s, %d counted", gap, rec.Attempts)
		}
	})
}

func TestTimeLimitCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options()
		o.HandlerTimeout, o.Attempts = time.Minute, 2
		var cause error
		rec, b, it := runOne(t, o, func(ctx context.Context, _ *consumer.Message) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		})
		b.wantAcked(t, it)
		if !errors.Is(cause, consumer.ErrTimeout) || rec.State != ledger.Failed {
			t.Fatalf("cause %v, row %v", cause, rec.State)
		}
		if a := rec.Archived[0]; a.Kind != ledger.KindExhausted || a.Errors[0].Kind != ledger.KindTimeout || a.Errors[1].Kind != ledger.KindTimeout {
			t.Errorf("archive %+v", a)
		}
	})
}

// nilError panics in its methods, like many a nil pointer that was returned as an error.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

type nilWrap struct{ err error }

func (e *nilWrap) Error() string { return "wrapped" }
func (e *nilWrap) Unwrap() error { return e.err }

// A panic, a runtime.Goexit, a nil pointer and an error that panics when it is asked: each is a counted attempt, the
// worker goes on at full width after 1,000 of them.
func TestPitfall66_PanicsAndGoexits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		o := options()
		o.Attempts, o.Breaker.Off = 1, true
		var m *consumer.Message
		var none map[string]int
		ways := []func() error{
			func() error { panic("ouch") },
			func() error { panic(errBoom) },
			func() error { runtime.Goexit(); return nil },
			func() error { return errors.New(m.ID) },
			func() error { return (*nilError)(nil) },
			func() error { return (*nilWrap)(nil) },
			func() error { panic(fmt.Sprintf("%0100000d", 1)) },
			func() error { none["x"]++; return nil },
		}
		kinds := []ledger.FailureKind{
			ledger.KindPanic, ledger.KindPanic, ledger.KindGoexit, ledger.KindPanic, ledger.KindPanic, ledger.KindPanic, ledger.KindPanic, ledger.KindPanic,
		}
		var next atomic.Int64
		block := make(chan struct{})
		var width atomic.Int64
		var mu sync.Mutex
		want := map[string]ledger.FailureKind{}
		e, b := begin(t, l, o, func(_ context.Context, m *consumer.Message) error {
			if strings.HasPrefix(m.ID, "wide") {
				width.Add(1)
				<-block
				return nil
			}
			i := int(next.Add(1)) % len(ways)
			mu.Lock()
			want[m.ID] = kinds[i]
			mu.Unlock()
			return ways[i]()
		})
		in := items(1000, noLane)
		e.Offer(in)
		pass(time.Minute)
		b.wantAcked(t, in...)
		for _, it := range in {
			rec := state(t, l, it)
			if rec.State != ledger.Failed || len(rec.Archived) != 1 || rec.Archived[0].Errors[0].Kind != want[it.Msg.ID] {
				t.Fatalf("message %s: %+v, want a %s", it.Msg.ID, rec, want[it.Msg.ID])
			}
		}
		var wide []*engine.Item
		for i := range 4 {
			wide = append(wide, item(fmt.Sprint("wide ", i), ""))
		}
		e.Offer(wide)
		pass(time.Second)
		if width.Load() != 4 {
			t.Errorf("%d handlers run at once, want 4", width.Load())
		}
		close(block)
		pass(time.Second)
		b.wantAcked(t, wide...)
		end(t, e)
	})
}

// A message whose handler cannot decode it must give its slot back; after 1,000 bad messages a good one runs at once.
func TestPitfall43_BadMessagesLeakNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := memory.New()
		o := options()
		o.Breaker.Off = true
		o.KeyFunc = func(m *consumer.Message) (string, error) {
			if !strings.HasPrefix(m.ID, "good") {
				return "", errBoom
			}
			return m.ID, nil
		}
		handler := consumer.JSON(func(context.Context, struct{ N int }) error { return nil })
		e, b := begin(t, l, o, handler.Handle)
		in := items(1000, func(i int) string { return fmt.Sprint(i % 3) })
		for i, it := range in {
			if i%2 == 0 {
				it.Identity = engine.Identify(&o, engine.Origin{Scope: scope, Source: "source"}, it.Msg)
			}
		}
		good := item("good", "1")
		good.Msg.Body = []byte(`{"N":1}`)
		e.Offer(append(in, good))
		pass(time.Minute)
		b.wantAcked(t, append(in, good)...)
		for i, it := range in {
			want := []ledger.FailureKind{ledger.KindInvalid, ledger.KindTerminal}[i%2]
			if rec := state(t, l, it); rec.State != ledger.Failed || rec.Archived[0].Kind != want || string(rec.Archived[0].Body) != "body of "+it.Msg.ID {
				t.Fatalf("message %s: %+v, want %s", it.Msg.ID, rec, want)
			}
		}
		if rec := state(t, l, good); rec.State != ledger.Succeeded {
			t.Errorf("the good message is %v", rec.State)
		}
		end(t, e)
	})
}

// What failed for good is a duplicate when its producer sends it again, where that is asked for; a redrive of the failure runs.
func TestKeepFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, keep := range []bool{false, true} {
			l, ran := memory.New(), 0
			o := options()
			o.KeepFailed, o.KeyFunc = keep, func(*consumer.Message) (string, error) { return "order 7", nil }
			e, b := begin(t, l, o, func(context.Context, *consumer.Message) error { ran++; return consumer.Terminal(errBoom) })
			for i := range 4 {
				it := item(fmt.Sprintf("delivery %d", i), "")
				it.Msg.Body = []byte("order 7")
				it.Identity = engine.Identify(&o, engine.Origin{Scope: scope, Source: "source"}, it.Msg)
				if i == 3 {
					it.StampToken = state(t, l, it).Token
				}
				e.Offer([]*engine.Item{it})
				pass(time.Second)
				b.wantAcked(t, it)
			}
			if want := map[bool]int{false: 4, true: 2}[keep]; ran != want {
				t.Errorf("with KeepFailed %t it ran %d times, want %d", keep, ran, want)
			}
			end(t, e)
		}
	})
}

// Whoever reads the log learns why a message failed for good, also when that was its only attempt.
func TestWhyItFailedForGoodIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		o := options()
		o.Logger = zap.New(core)
		e, b := begin(t, memory.New(), o, func(context.Context, *consumer.Message) error { return consumer.Terminal(errBoom) })
		it := item("one", "")
		e.Offer([]*engine.Item{it})
		pass(time.Second)
		b.wantAcked(t, it)
		found := logs.FilterMessage("message failed for good, archived").All()
		if len(found) != 1 || found[0].ContextMap()["error"] != errBoom.Error() {
			t.Errorf("%+v", found)
		}
		end(t, e)
	})
}
