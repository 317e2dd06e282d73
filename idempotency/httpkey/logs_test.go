package httpkey_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/httpkey"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// What operators are told: of requests that were not answered as asked for a reason of the server's, and of those that run unprotected.
func TestWhatIsLogged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		away bool
		o    httpkey.Options
		ask  []asked
		want []string
	}{
		{"all well, and clients' mistakes", false, httpkey.Options{}, append(then(asked{}, func(q *asked) { q.body = "x" }), asked{}, asked{key: "k"}), nil},
		{"the ledger is away", true, httpkey.Options{}, []asked{{key: "k"}}, []string{"a request was not answered as asked"}},
		{"unprotected", true, httpkey.Options{WithoutLedger: true}, []asked{{key: "k"}}, []string{"the ledger does not answer: a request runs unprotected"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			core, logs := observer.New(zapcore.DebugLevel)
			c.o.Logger = zap.New(core)
			h, _ := counted(http.StatusCreated)
			var l ledger.Ledger = memory.New()
			wait := time.Minute
			if c.away {
				l, wait = away{Ledger: l}, time.Millisecond
			}
			e := serveOn(t, l, idempotency.Options{Wait: wait}, c.o, h, false)
			if c.away {
				e.learns()
				logs.TakeAll()
			}
			for _, q := range c.ask {
				e.ask(q)
			}
			var got []string
			for _, entry := range logs.All() {
				got = append(got, entry.Message)
				if source := entry.ContextMap()["source"]; source != "POST /pay/{id}" {
					t.Errorf("%s: of %v", entry.Message, source)
				}
			}
			if !slices.Equal(slices.Compact(got), c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// deaf is a client that takes nothing.
type deaf struct{ header http.Header }

func (d deaf) Header() http.Header       { return d.header }
func (deaf) WriteHeader(int)             {}
func (deaf) Write(p []byte) (int, error) { return 0, io.ErrClosedPipe }

// An answer that does not arrive is noted for whoever looks closely, and given again.
func TestAnswersThatDoNotArrive(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.DebugLevel)
	h, runs := counted(http.StatusCreated)
	e := serve(t, idempotency.Options{}, httpkey.Options{}, h, false)
	wrap, err := httpkey.New(e.runner, httpkey.Options{Logger: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/pay/7", http.NoBody)
		r.Header.Set("Idempotency-Key", "k")
		wrap(h).ServeHTTP(deaf{http.Header{}}, r)
		if logs.FilterMessage("an answer was not sent").FilterField(zap.Error(io.ErrClosedPipe)).Len() != n+1 || runs.Load() != 1 {
			t.Errorf("%d: %v after %d runs", n, logs.All(), runs.Load())
		}
	}
}

// An answer that is another one than what the transaction has committed is told: no repetition gets it.
func TestLateAnswersAreLogged(t *testing.T) {
	t.Parallel()
	type doing struct {
		w   http.ResponseWriter
		ctx context.Context
		end func(state ledger.AttemptState, err error) // of the transaction
	}
	say := func(w http.ResponseWriter, text string) { _, _ = io.WriteString(w, text) }
	for _, c := range []struct {
		name string
		do   func(d doing)
		late bool
	}{
		{"before", func(d doing) { say(d.w, "a"); d.end(ledger.AttemptSucceeded, nil) }, false},
		{"after", func(d doing) { d.end(ledger.AttemptSucceeded, nil); say(d.w, "a") }, true},
		{"a part of it after", func(d doing) { say(d.w, "a"); d.end(ledger.AttemptSucceeded, nil); say(d.w, "b") }, true},
		{"after, and kept by the handler itself", func(d doing) {
			if err := idempotency.SetResult(d.ctx, idempotency.Result{Status: 200, Body: []byte("a")}); err != nil {
				t.Error(err)
			}
			d.end(ledger.AttemptSucceeded, nil)
			say(d.w, "a")
		}, false},
		{"after it failed", func(d doing) { d.end(ledger.AttemptOpen, errors.New("no commit")); say(d.w, "a") }, false},
		{"without a transaction", func(d doing) { say(d.w, "a") }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			core, logs := observer.New(zapcore.ErrorLevel)
			e := serve(t, idempotency.Options{}, httpkey.Options{Logger: zap.New(core)}, func(w http.ResponseWriter, r *http.Request) {
				a, _ := ledger.AttemptFrom(r.Context())
				if c.name != "without a transaction" {
					if err := a.Begin(); err != nil {
						t.Error(err)
					}
				}
				c.do(doing{w, r.Context(), func(state ledger.AttemptState, failed error) {
					err := a.Commits()
					if failed == nil {
						var errs []error
						errs, bad := a.Owner().Settle(r.Context(), []ledger.Settlement{{Ticket: a.Ticket(), Kind: ledger.Succeed, Result: a.Result()}})
						err = errors.Join(append(errs, err, bad)...)
					}
					if err != nil {
						t.Error(err)
					}
					a.End(state, failed)
				}})
			}, false)
			e.ask(asked{key: "k"})
			if got := logs.FilterMessageSnippet("after its transaction's end").Len() == 1; got != c.late {
				t.Errorf("logged: %v", logs.All())
			}
		})
	}
}
