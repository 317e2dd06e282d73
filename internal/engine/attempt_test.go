package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/ledger/storage"
)

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
		{ledger.AttemptUnknown, true}, {ledger.AttemptUnknown, false}, {ledger.AttemptLost, false},
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

// failTx plays an InTx that ended in err.
func failTx(ctx context.Context, err error) error {
	a, _ := ledger.AttemptFrom(ctx)
	if err := a.Begin(); err != nil {
		return err
	}
	a.End(ledger.AttemptOpen, err)
	return err
}

// A database that breaks off inside a handler's transaction is an outage: no attempt is counted.
func TestBrokenTransactionCountsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		rec, b, it := runOne(t, options(), func(ctx context.Context, _ *consumer.Message) error {
			if runs++; runs > 5 {
				return nil
			}
			return failTx(ctx, ledger.MarkUnavailable(errBoom))
		})
		b.wantAcked(t, it)
		if rec.State != ledger.Succeeded || rec.Attempts != 0 || runs != 6 {
			t.Errorf("%d runs, %+v", runs, rec)
		}
	})
}

// A message whose transaction breaks its connection each time was tried again for ever.
func TestMessageThatBreaksItsConnectionComesToAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		o := options()
		o.Attempts = 3
		rec, b, it := runOne(t, o, func(ctx context.Context, _ *consumer.Message) error {
			runs++
			return failTx(ctx, ledger.MarkUnavailable(errBoom))
		})
		b.wantAcked(t, it)
		if rec.State != ledger.Failed || runs != 5+3 {
			t.Errorf("%d runs, %+v", runs, rec)
		}
	})
}

// A handler that swallows the error of its transaction would turn effects that were rolled back into a success.
func TestSwallowedTransactionErrorIsAFailedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		rec, b, it := runOne(t, options(), func(ctx context.Context, _ *consumer.Message) error {
			if runs++; runs == 1 {
				_ = failTx(ctx, errBoom)
			}
			return nil
		})
		b.wantAcked(t, it)
		if rec.State != ledger.Succeeded || runs != 2 || rec.Attempts != 1 {
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
				want := storage.CutResult(result, 100)
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

// A tombstone is not an empty body: in the handler, on the retry, and in the archive. The same for header values; their type
// is there each time, too.
func TestNilIsNotEmpty(t *testing.T) {
	for name, body := range map[string][]byte{"nil": nil, "empty": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := memory.New()
				o := options()
				o.Attempts = 2
				headers := []consumer.Header{{Name: "nil"}, {Name: "empty", Value: []byte{}}, {Name: "\x00 \xff", Value: []byte{0}}, {Name: "nil", Type: "Number"}}
				check := func(got []byte, hs []consumer.Header) {
					t.Helper()
					if (got == nil) != (body == nil) || len(got) != 0 {
						t.Errorf("body is %#v", got)
					}
					if len(hs) != 4 || hs[0].Value != nil || hs[1].Value == nil || hs[2].Name != "\x00 \xff" || hs[3].Name != "nil" || hs[3].Type != "Number" {
						t.Errorf("headers are %#v", hs)
					}
				}
				e, b := begin(t, l, o, func(_ context.Context, m *consumer.Message) error { check(m.Body, m.Headers); return errBoom })
				it := item("one", "")
				it.Msg.Body, it.Msg.Headers = body, headers
				it.Original = func(*engine.Item) engine.Content { return engine.Content{Body: body, Headers: headers} }
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
		if keys[0] == "" || keys[0] != keys[1] || keys[1] != keys[2] || keys[0] != consumer.DeriveChildKey(it.Key.Sum(), "charge", 0) {
			t.Errorf("child keys %v", keys)
		}
		if fmt.Sprint(tokens) != "[1 2 3]" || rec.Token != 3 {
			t.Errorf("tokens %v", tokens)
		}
	})
}

// ownedBy is a ledger whose owner groups calls.
type ownedBy struct {
	ledger.Ledger
	owner ledger.Owner
}

func (l *ownedBy) Join(ctx context.Context, lease time.Duration) (ledger.Owner, error) {
	o, err := l.Ledger.Join(ctx, lease)
	l.owner = ledger.Group(o, ledger.GroupConfig{})
	return l.owner, err
}

// TestAttemptsHaveTheOwnerThatGroups: what handlers ask of the ledger one by one is grouped, such as the recording of steps.
func TestAttemptsHaveTheOwnerThatGroups(t *testing.T) {
	for name, handler := range map[string]func(consumer.HandlerFunc) consumer.Handler{
		"each": func(h consumer.HandlerFunc) consumer.Handler { return h },
		"batch": func(h consumer.HandlerFunc) consumer.Handler {
			return consumer.Batch(2, func(ctx context.Context, _ []*consumer.Message) []error { return []error{h(ctx, nil)} })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, runs := &ownedBy{Ledger: memory.New()}, 0
				e, b := begin(t, l, options(), nil, func(c *engine.Config) {
					c.Handler = handler(func(ctx context.Context, _ *consumer.Message) error {
						runs++
						if a, _ := ledger.AttemptFrom(ctx); a.Owner() != l.owner {
							t.Errorf("the attempt's owner is a %T, want a %T", a.Owner(), l.owner)
						}
						return nil
					})
				})
				it := item("one", "")
				e.Offer([]*engine.Item{it})
				pass(time.Second)
				end(t, e)
				if b.wantAcked(t, it); runs != 1 {
					t.Errorf("%d runs", runs)
				}
			})
		})
	}
}
