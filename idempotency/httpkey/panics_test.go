package httpkey_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/httpkey"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// cutOff asks with the key "k" and the body "a", and wants no whole answer.
func (e *env) cutOff() {
	e.Helper()
	r, err := http.NewRequestWithContext(e.Context(), http.MethodPost, e.server.URL+"/pay/7", strings.NewReader("a"))
	if err != nil {
		e.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "k")
	r.GetBody = nil // the client does not try again by itself
	resp, err := e.server.Client().Do(r)
	if err != nil {
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if body, err := io.ReadAll(resp.Body); err == nil {
		e.Errorf("%d, whole, with %d bytes", resp.StatusCode, len(body))
	}
}

// A panic goes on: its client is cut off, and the next request runs, as often as it panics. So is a status that is none.
func TestPitfall170_PanicsAreReleased(t *testing.T) {
	for name, blow := range map[string]func(http.ResponseWriter){
		"abort":       func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"no status":   func(w http.ResponseWriter) { w.WriteHeader(99) },
		"none either": func(w http.ResponseWriter) { w.WriteHeader(1000) },
	} {
		t.Run(name, func(t *testing.T) {
			protocols(t, func(t *testing.T, http2 bool) {
				var runs atomic.Int32
				e := serve(t, idempotency.Options{Attempts: 1}, httpkey.Options{}, func(w http.ResponseWriter, _ *http.Request) {
					if runs.Add(1) == 1 {
						_, _ = w.Write(nil)
						blow(w)
					}
				}, http2)
				e.server.Config.ErrorLog = quiet
				e.cutOff()
				for n := range 2 {
					if a := e.ask(asked{key: "k", body: "a"}); a.status != http.StatusOK || a.replayed() != (n == 1) || runs.Load() != 2 {
						t.Errorf("%d: %+v after %d runs", n, a, runs.Load())
					}
				}
			})
		})
	}
}

// parts are the ways in which a client has a part of an answer.
var parts = map[string]func(http.ResponseWriter){
	"flushed": func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusCreated)
		w.(http.Flusher).Flush()
	},
	"too large": func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, 300<<10)) },
}

// A handler that panics once its client has a part of its answer does not run again; nor does one whose transaction fails then.
func TestPitfall171_TornAnswersDoNotRunAgain(t *testing.T) {
	l := openFile(t)
	for how, part := range parts {
		for end, fails := range map[string]bool{"panics": false, "rolls back": true} {
			t.Run(how+", "+end, func(t *testing.T) {
				protocols(t, func(t *testing.T, http2 bool) {
					var runs atomic.Int32
					caller := func(*http.Request) string { return t.Name() }
					e := serveOn(t, l, idempotency.Options{}, httpkey.Options{Caller: caller}, func(w http.ResponseWriter, r *http.Request) {
						runs.Add(1)
						if !fails {
							part(w)
							panic("ouch")
						}
						_ = sqlite.InTx(r.Context(), func(context.Context, *sql.Tx) error {
							part(w)
							return errors.New("rolled back")
						})
					}, http2)
					e.server.Config.ErrorLog = quiet
					e.cutOff()
					for range 2 {
						if a := e.ask(asked{key: "k", body: "a"}); a.status != http.StatusConflict || a.problem() != httpkey.NotReplayed || runs.Load() != 1 {
							t.Errorf("again: %+v after %d runs", a, runs.Load())
						}
					}
				})
			})
		}
	}
}

// A handler that panics after its commit has done what it committed.
func TestPanicsAfterTheCommit(t *testing.T) {
	var runs atomic.Int32
	e := serveOn(t, openFile(t), idempotency.Options{}, httpkey.Options{}, func(w http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		if err := sqlite.InTx(r.Context(), func(context.Context, *sql.Tx) error {
			w.WriteHeader(http.StatusCreated)
			return nil
		}); err != nil {
			t.Error(err)
		}
		panic("ouch")
	}, false)
	e.server.Config.ErrorLog = quiet
	e.cutOff()
	if a := e.ask(asked{key: "k", body: "a"}); a.status != http.StatusCreated || !a.replayed() || runs.Load() != 1 {
		t.Errorf("again: %+v after %d runs", a, runs.Load())
	}
}

// A panic is logged where it happened, but for the one that says that it is none.
func TestPanicsAreLogged(t *testing.T) {
	t.Parallel()
	for panics, want := range map[any]int{"ouch": 1, http.ErrAbortHandler: 0} {
		core, logs := observer.New(zapcore.DebugLevel)
		e := serve(t, idempotency.Options{}, httpkey.Options{Logger: zap.New(core)}, func(http.ResponseWriter, *http.Request) { panic(panics) }, false)
		e.server.Config.ErrorLog = quiet
		e.cutOff()
		got := logs.FilterMessage("a handler panicked").All()
		if len(got) != want {
			t.Fatalf("%v: %v", panics, got)
		}
		for _, entry := range got {
			fields := entry.ContextMap()
			if text := fields["error"].(string); fields["source"] != "POST /pay/{id}" || !strings.Contains(text, "ouch") || !strings.Contains(text, "TestPanicsAreLogged") {
				t.Errorf("%v", fields)
			}
		}
	}
}
