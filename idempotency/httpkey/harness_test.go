package httpkey_test

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/httpkey"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// env is a server behind the middleware, and a client.
type env struct {
	*testing.T
	server *httptest.Server
	runner *idempotency.Runner
}

// serve serves a mux whose handler for POST /pay/{id} is behind the middleware.
func serve(t *testing.T, ro idempotency.Options, o httpkey.Options, h http.HandlerFunc, http2 bool) *env {
	t.Helper()
	return serveOn(t, memory.New(), ro, o, h, http2)
}

func serveOn(t *testing.T, l ledger.Ledger, ro idempotency.Options, o httpkey.Options, h http.HandlerFunc, http2 bool) *env {
	t.Helper()
	e := &env{T: t}
	var err error
	if e.runner, err = idempotency.New(l, ro); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.runner.Run(ctx) }()
	until(t, func() bool { return e.runner.Health().Ready })
	wrap, err := httpkey.New(e.runner, o)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/pay/{id}", wrap(h))
	mux.Handle("/refund/{id}", wrap(h))
	e.server = httptest.NewUnstartedServer(outer(mux))
	e.server.EnableHTTP2 = http2
	// All requests of a test fit into one connection: a thousand that each begin one of their own can take longer than a busy machine's
	// server waits for a connection's first bytes.
	e.server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 2000}
	if http2 {
		e.server.StartTLS()
	} else {
		e.server.Start()
	}
	client := e.server.Client()
	client.Transport.(*http.Transport).ExpectContinueTimeout = time.Minute
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(func() {
		e.server.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return e
}

// until waits for a condition.
func until(t *testing.T, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited for a minute")
		}
	}
}

// openFile opens a ledger with transactions.
func openFile(t *testing.T) *sqlite.Ledger {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a disk that servers are unpacked to may stand still for ten seconds
	defer cancel()
	l, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "ledger.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// outer is a middleware around all: its headers are not the handlers' business.
func outer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Outer", "outer")
		w.Header().Set("Vary", "Origin")
		next.ServeHTTP(w, r)
	})
}

// asked is a request of a test.
type asked struct {
	method, path, key, body string
	header                  http.Header
	chunked                 bool // its length is not announced
}

// answer is what came of it.
type answer struct {
	status  int
	header  http.Header
	trailer http.Header
	body    string
	infos   []string // what came before it: 100, and 103 with its Link
}

func (a *answer) replayed() bool { return a.header.Get("Idempotent-Replayed") == "true" }

// problem is the name of the problem that it is; empty: it is none.
func (a *answer) problem() string {
	if a.header.Get("Content-Type") != "application/problem+json" {
		return ""
	}
	_, after, _ := bytes.Cut([]byte(a.body), []byte("problems.md#"))
	name, _, _ := bytes.Cut(after, []byte(`"`))
	return string(name)
}

// ask sends a request: by default POST /pay/7 with a body.
func (e *env) ask(q asked) *answer {
	e.Helper()
	if q.method == "" {
		q.method = http.MethodPost
	}
	if q.path == "" {
		q.path = "/pay/7"
	}
	var body io.Reader = bytes.NewBufferString(q.body)
	if q.chunked {
		body = io.NopCloser(body)
	}
	a := &answer{header: http.Header{}}
	ctx := httptrace.WithClientTrace(e.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		a.infos = append(a.infos, strings.TrimSpace(strconv.Itoa(code)+" "+h.Get("Link")))
		return nil
	}})
	r, err := http.NewRequestWithContext(ctx, q.method, e.server.URL+q.path, body)
	if err != nil {
		e.Fatal(err)
	}
	for name, values := range q.header {
		r.Header[name] = values
	}
	if q.key != "" {
		r.Header.Set("Idempotency-Key", q.key)
	}
	resp, err := e.server.Client().Do(r)
	if err != nil {
		e.Errorf("%s %s: %v", q.method, q.path, err)
		return a
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		e.Errorf("%s %s: reading the answer: %v", q.method, q.path, err)
	}
	a.status, a.header, a.trailer, a.body = resp.StatusCode, resp.Header, resp.Trailer, string(got)
	return a
}

// quiet is for servers whose handlers panic on purpose.
var quiet = log.New(io.Discard, "", 0)
