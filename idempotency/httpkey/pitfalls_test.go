package httpkey_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/httpkey"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// A client that has a part of an answer whose transaction then fails does not take it for whole.
func TestPitfall158_LargeAnswerRolledBack(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		l, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		e := serveOn(t, l, idempotency.Options{}, httpkey.Options{}, func(w http.ResponseWriter, r *http.Request) {
			_ = sqlite.InTx(r.Context(), func(context.Context, *sql.Tx) error {
				w.WriteHeader(http.StatusCreated)
				_, _ = io.WriteString(w, strings.Repeat("paid", 100<<10))
				return errors.New("rolled back")
			})
		}, http2)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.server.URL+"/pay/7", strings.NewReader("a"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", "k")
		r.GetBody = nil
		resp, err := e.server.Client().Do(r)
		if err != nil {
			return
		}
		defer func() { _ = resp.Body.Close() }()
		if body, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("%d, whole, with %d bytes, of what was rolled back", resp.StatusCode, len(body))
		}
	})
}

// What differs only in a prefix that http.StripPrefix has taken off is another request.
func TestPitfall159_StrippedPrefixes(t *testing.T) {
	t.Parallel()
	e := serve(t, idempotency.Options{}, httpkey.Options{}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }, false)
	whole := e.server.Config.Handler
	mux := http.NewServeMux()
	for _, prefix := range []string{"/cards", "/banks"} {
		mux.Handle(prefix+"/", http.StripPrefix(prefix, whole))
	}
	e.server.Config.Handler = mux
	if a := e.ask(asked{key: "k", path: "/cards/pay/7"}); a.status != http.StatusCreated {
		t.Errorf("first: %+v", a)
	}
	if a := e.ask(asked{key: "k", path: "/banks/pay/7"}); a.status != http.StatusUnprocessableEntity {
		t.Errorf("another prefix: %+v", a)
	}
}

// A header that the ledger cannot hold does not fail a request whose effects may have happened: its answer reaches the first client alone.
func TestPitfall163_HeadersThatAreNotText(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Location", "Content-Type"} {
		var runs atomic.Int32
		e := serve(t, idempotency.Options{}, httpkey.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			runs.Add(1)
			w.Header().Set(name, "text/caf\xe9")
			w.WriteHeader(http.StatusCreated)
		}, false)
		if a := e.ask(asked{key: "k"}); a.status != http.StatusCreated || a.header.Get(name) != "text/caf\xe9" {
			t.Errorf("%s, first: %+v", name, a)
		}
		if a := e.ask(asked{key: "k"}); a.problem() != httpkey.NotReplayed || runs.Load() != 1 {
			t.Errorf("%s, again: %+v after %d runs", name, a, runs.Load())
		}
	}
}
