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
		it.Original = func() ([]byte, []ledger.Header) {
			return []byte("body of one"), []ledger.Header{{Name: "h", Value: []byte("v")}}
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
		o.Attempts = 1
		var m *consumer.Message
		ways := []func() error{
			func() error { panic("ouch") },
			func() error { panic(errBoom) },
			func() error { runtime.Goexit(); return nil },
			func() error { return errors.New(m.ID) },
			func() error { return (*nilError)(nil) },
			func() error { return (*nilWrap)(nil) },
			func() error { panic(fmt.Sprintf("%0100000d", 1)) },
			func() error { var none map[string]int; none["x"]++; return nil },
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

func TestInTxOutcomes(t *testing.T) {
	nothing := func(context.Context) error { return nil }
	for _, c := range []struct {
		name  string
		h     func(ctx context.Context, run int) error
		runs  int
		state ledger.State
	}{
		{"committed", func(ctx context.Context, _ int) error { return memory.InTx(ctx, nothing) }, 1, ledger.Succeeded},
		{"rolled back, then committed", func(ctx context.Context, run int) error {
			return memory.InTx(ctx, func(context.Context) error {
				if run == 1 {
					return errBoom
				}
				return nil
			})
		}, 2, ledger.Succeeded},
		{"terminal inside", func(ctx context.Context, _ int) error {
			return memory.InTx(ctx, func(context.Context) error { return consumer.Terminal(errBoom) })
		}, 1, ledger.Failed},
		{"panic inside, then committed", func(ctx context.Context, run int) error {
			return memory.InTx(ctx, func(context.Context) error {
				if run == 1 {
					panic("ouch")
				}
				return nil
			})
		}, 2, ledger.Succeeded},
		{"called twice", func(ctx context.Context, _ int) error {
			return errors.Join(memory.InTx(ctx, nothing), memory.InTx(ctx, nothing))
		}, 1, ledger.Succeeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				run := 0
				rec, b, it := runOne(t, options(), func(ctx context.Context, _ *consumer.Message) error { run++; return c.h(ctx, run) })
				b.wantAcked(t, it)
				if run != c.runs || rec.State != c.state {
					t.Errorf("%d runs, row %v", run, rec.State)
				}
			})
		})
	}
}

// The user's transaction commits, then his handler fails, panics or is cancelled: the message succeeded, it is
// acknowledged and never run again.
func TestPitfall85_ErrorAfterTheCommit(t *testing.T) {
	for name, after := range map[string]func() error{
		"error":    func() error { return errBoom },
		"terminal": func() error { return consumer.Terminal(errBoom) },
		"panic":    func() error { panic("ouch") },
		"goexit":   func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runs := 0
				rec, b, it := runOne(t, options(), func(ctx context.Context, _ *consumer.Message) error {
					runs++
					if err := memory.InTx(ctx, func(context.Context) error { return consumer.SetResult(ctx, []byte("r")) }); err != nil {
						return err
					}
					if err := consumer.SetResult(ctx, nil); !errors.Is(err, ledger.ErrSettled) {
						t.Errorf("SetResult after the commit: %v", err)
					}
					return after()
				})
				b.wantAcked(t, it)
				if runs != 1 || rec.State != ledger.Succeeded || string(rec.Result) != "r" || len(rec.Archived) != 0 {
					t.Errorf("%d runs, %+v", runs, rec)
				}
			})
		})
	}
}

// A transaction that was lost or of which nothing is known settles nothing by itself: the ledger is asked what is true.
func TestLostAndUnknownTransactionsAreAskedFor(t *testing.T) {
	for _, c := range []struct {
		state  ledger.AttemptState
		landed bool
	}{
		{ledger.AttemptUnknown, true}, {ledger.AttemptUnknown, false}, {ledger.AttemptLost, false}, {ledger.AttemptRunning, false},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runs := 0
				rec, b, it := runOne(t, options(), func(ctx context.Context, _ *consumer.Message) error {
					if runs++; runs > 1 {
						return nil
					}
					a, _ := ledger.AttemptFrom(ctx)
					if c.landed { // the commit is in the ledger, its answer is not known
						if err := memory.InTx(ctx, func(context.Context) error { return nil }); err != nil {
							return err
						}
					} else if err := a.Begin(); err != nil {
						return err
					}
					a.End(c.state, errBoom)
					return errBoom
				})
				b.wantAcked(t, it)
				want := 2
				if c.landed {
					want = 1
				}
				if runs != want || rec.State != ledger.Succeeded || rec.Attempts != 0 {
					t.Errorf("%d runs, want %d; %+v", runs, want, rec)
				}
			})
		})
	}
}

// A database that breaks off inside a handler's transaction is an outage: no attempt is counted.
func TestBrokenTransactionCountsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		rec, b, it := runOne(t, options(), func(ctx context.Context, _ *consumer.Message) error {
			if runs++; runs > 30 {
				return nil
			}
			a, _ := ledger.AttemptFrom(ctx)
			if err := a.Begin(); err != nil {
				return err
			}
			err := ledger.MarkUnavailable(errBoom)
			a.End(ledger.AttemptOpen, err)
			return err
		})
		b.wantAcked(t, it)
		if rec.State != ledger.Succeeded || rec.Attempts != 0 || runs != 31 {
			t.Errorf("%d runs, %+v", runs, rec)
		}
	})
}

// Results that are nil, empty, not text or over the limit are stored or cut with a marker; the message is never re-run.
func TestPitfall23_Results(t *testing.T) {
	limit := ledger.DefaultLimits
	limit.Result = 100
	for name, result := range map[string][]byte{
		"nil": nil, "empty": {}, "nul": []byte("\u0000"), "not text": {0xff, 0xfe}, "at the limit": bytes.Repeat([]byte("x"), 100),
		"over the limit": bytes.Repeat([]byte("x"), 101),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runs := 0
				given := bytes.Clone(result)
				rec, b, it := runOne(t, options(), func(ctx context.Context, _ *consumer.Message) error {
					runs++
					err := consumer.SetResult(ctx, given)
					clear(given) // the bytes are copied
					return err
				}, limit)
				b.wantAcked(t, it)
				want := ledger.CutResult(result, 100)
				if runs != 1 || !bytes.Equal(rec.Result, want) || (rec.Result == nil) != (want == nil) {
					t.Errorf("%d runs, result %q", runs, rec.Result)
				}
				if name == "over the limit" && (len(rec.Result) > 100 || !strings.Contains(string(rec.Result), "cut from 101 bytes")) {
					t.Errorf("cut to %q", rec.Result)
				}
			})
		})
	}
}

// A tombstone is not an empty body: in the handler, on the retry, and in the archive. The same for header values.
func TestNilIsNotEmpty(t *testing.T) {
	for name, body := range map[string][]byte{"nil": nil, "empty": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := memory.New()
				o := options()
				o.Attempts = 2
				headers := []consumer.Header{{Name: "nil"}, {Name: "empty", Value: []byte{}}, {Name: "\x00 \xff", Value: []byte{0}}, {Name: "nil"}}
				check := func(got []byte, hs []consumer.Header) {
					t.Helper()
					if (got == nil) != (body == nil) || len(got) != 0 {
						t.Errorf("body is %#v", got)
					}
					if len(hs) != 4 || hs[0].Value != nil || hs[1].Value == nil || hs[2].Name != "\x00 \xff" || hs[3].Name != "nil" {
						t.Errorf("headers are %#v", hs)
					}
				}
				e, b := begin(t, l, o, func(_ context.Context, m *consumer.Message) error { check(m.Body, m.Headers); return errBoom })
				it := item("one", "")
				it.Msg.Body, it.Msg.Headers = body, headers
				it.Original = func() ([]byte, []ledger.Header) { return body, headers }
				e.Offer([]*engine.Item{it})
				pass(time.Minute)
				end(t, e)
				b.wantAcked(t, it)
				check(state(t, l, it).Archived[0].Body, state(t, l, it).Archived[0].Headers)
			})
		})
	}
}

func TestHandlerContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys []string
		var tokens []uint64
		rec, b, it := runOne(t, options(), func(ctx context.Context, m *consumer.Message) error {
			keys, tokens = append(keys, consumer.ChildKey(ctx, "charge")), append(tokens, consumer.Token(ctx))
			if consumer.MessageFrom(ctx) != m {
				t.Error("MessageFrom is not the handler's message")
			}
			if len(keys) < 3 {
				return errBoom
			}
			return nil
		})
		b.wantAcked(t, it)
		if keys[0] == "" || keys[0] != keys[1] || keys[1] != keys[2] || keys[0] != consumer.DeriveChildKey(scope, "one", "charge", 0) {
			t.Errorf("child keys %v", keys)
		}
		if fmt.Sprint(tokens) != "[1 2 3]" || rec.Token != 3 {
			t.Errorf("tokens %v", tokens)
		}
	})
}
