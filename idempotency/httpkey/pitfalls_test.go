package httpkey_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/httpkey"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// A client that has a part of an answer whose transaction then fails does not take it for whole.
func TestPitfall158_LargeAnswerRolledBack(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		l := openFile(t)
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

// failsOnce is a cipher whose first call fails.
type failsOnce struct {
	xor
	calls atomic.Int32
}

func (f *failsOnce) Seal(ctx context.Context, plain []byte) ([]byte, error) {
	if f.calls.Add(1) == 1 {
		return nil, errors.New("no key today")
	}
	return f.xor.Seal(ctx, plain)
}

// An answer that cannot be sealed does not fail a request that was done, nor run it again.
func TestPitfall165_CipherIsAway(t *testing.T) {
	t.Parallel()
	for _, rerun := range []bool{false, true} {
		h, runs := counted(http.StatusCreated)
		e := serve(t, idempotency.Options{Cipher: &failsOnce{}, RerunFailed: rerun}, httpkey.Options{}, h, false)
		if a := e.ask(asked{key: "k"}); a.status != http.StatusCreated {
			t.Errorf("first: %+v", a)
		}
		if a := e.ask(asked{key: "k"}); a.problem() != httpkey.NotReplayed || runs.Load() != 1 {
			t.Errorf("again: %+v after %d runs", a, runs.Load())
		}
	}
}

// A runner that drains says nothing of the ledger: a repetition of what still runs does not run unprotected beside it.
func TestPitfall166_UnprotectedInADrain(t *testing.T) {
	t.Parallel()
	r, err := idempotency.New(memory.New(), idempotency.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	until(t, func() bool { return r.Health().Ready })
	wrap, err := httpkey.New(r, httpkey.Options{WithoutLedger: true})
	if err != nil {
		t.Fatal(err)
	}
	var runs atomic.Int32
	began, release := make(chan struct{}), make(chan struct{})
	h := wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if runs.Add(1) == 1 {
			close(began)
			<-release
		}
	}))
	ask := func() int {
		q, w := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/pay/7", http.NoBody), httptest.NewRecorder()
		q.Header.Set("Idempotency-Key", "k")
		h.ServeHTTP(w, q)
		return w.Code
	}
	first := make(chan int, 1)
	go func() { first <- ask() }()
	<-began
	stop()
	until(t, func() bool { return !r.Health().Ready })
	if code := ask(); code != http.StatusServiceUnavailable || runs.Load() != 1 {
		t.Errorf("%d after %d runs", code, runs.Load())
	}
	close(release)
	if code := <-first; code != http.StatusOK {
		t.Errorf("the first one: %d", code)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A form that was read before is part of what a request asks for. What was read before otherwise is refused.
func TestPitfall168_FormsThatWereRead(t *testing.T) {
	t.Parallel()
	h, runs := counted(http.StatusCreated)
	e := serve(t, idempotency.Options{}, httpkey.Options{}, h, false)
	whole := e.server.Config.Handler
	e.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("csrf") == "" && r.Header.Get("Content-Type") == "text/plain" {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		whole.ServeHTTP(w, r)
	})
	kind := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	for _, c := range []struct {
		body string
		want int
	}{{"amount=1&csrf=x", http.StatusCreated}, {"csrf=x&amount=1", http.StatusCreated}, {"amount=2&csrf=x", http.StatusUnprocessableEntity}} {
		if a := e.ask(asked{key: "k", body: c.body, header: kind}); a.status != c.want || runs.Load() != 1 {
			t.Errorf("%s: %+v after %d runs", c.body, a, runs.Load())
		}
	}
	if a := e.ask(asked{key: "other", body: "x", header: http.Header{"Content-Type": {"text/plain"}}}); a.status != http.StatusInternalServerError || runs.Load() != 1 {
		t.Errorf("read before: %+v after %d runs", a, runs.Load())
	}
}

// A caller's name that looks like what another's long one is shortened to is shortened, too.
func TestPitfall169_ShortenedCallers(t *testing.T) {
	t.Parallel()
	h, runs := counted(http.StatusCreated)
	e := serve(t, idempotency.Options{}, httpkey.Options{Caller: func(r *http.Request) string { return r.Header.Get("X-Tenant") }}, h, false)
	long := strings.Repeat("a", 300)
	sum := sha256.Sum256([]byte(long))
	for n, tenant := range []string{long, long[:190] + "~" + hex.EncodeToString(sum[:])} {
		if a := e.ask(asked{key: "k", header: http.Header{"X-Tenant": {tenant}}}); a.replayed() || int(runs.Load()) != n+1 {
			t.Errorf("%d: %+v after %d runs", n, a, runs.Load())
		}
	}
}
