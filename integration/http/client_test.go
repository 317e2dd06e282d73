package http_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/idempotency/httpkey"
)

// answer is what a client gets in the end.
type answer struct {
	body, location, kind string
	replayed             bool
}

// same says whether two answers are one, whether replayed or not.
func (a answer) same(b answer) bool {
	a.replayed = b.replayed
	return a == b
}

// client repeats requests.
type client struct {
	where func() (address string) // of who is asked next
	http  *http.Client
}

func newClient(t *testing.T, where func() string) *client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{where: where, http: &http.Client{Transport: transport}}
}

// between lies between a request that got no answer and its repetition.
const between = 10 * time.Millisecond

// ask repeats the request to a path, whose last part is its key, until it is answered. It gives up when its context ends, and on an answer that says that it would be in vain.
func (c *client) ask(ctx context.Context, path string) (answer, error) {
	for {
		a, err := c.once(ctx, path)
		final, is := errors.AsType[*finalError](err)
		switch {
		case err == nil:
			return a, nil
		case is:
			return a, final
		}
		select {
		case <-ctx.Done():
			return a, fmt.Errorf("%s: no answer: %w; the last try: %w", path, context.Cause(ctx), err)
		case <-time.After(between):
		}
	}
}

// finalError is an answer that nobody should get.
type finalError struct{ status, body string }

// Error says what was answered.
func (e *finalError) Error() string { return "answered with " + e.status + ": " + e.body }

// once asks once. Its error says that there is no answer yet, unless it is a finalError.
func (c *client) once(ctx context.Context, path string) (a answer, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.where()+path, strings.NewReader(`{"amount":10}`))
	if err != nil {
		return a, &finalError{body: err.Error()}
	}
	r.Header.Set("Idempotency-Key", path[strings.LastIndex(path, "/")+1:])
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(r)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return a, err // broken off
	}
	switch problem := ""; {
	case resp.StatusCode == http.StatusCreated:
		h := resp.Header
		return answer{string(body), h.Get("Location"), h.Get("Content-Type"), h.Get("Idempotent-Replayed") == "true"}, nil
	case resp.StatusCode == http.StatusInternalServerError:
		if problem = problemOf(body); problem != httpkey.Unknown {
			return a, &finalError{resp.Status, string(body)}
		}
	case resp.StatusCode == http.StatusConflict:
		if problem = problemOf(body); problem != httpkey.InProgress {
			return a, &finalError{resp.Status, string(body)}
		}
	case resp.StatusCode != http.StatusServiceUnavailable && resp.StatusCode != http.StatusBadGateway:
		return a, &finalError{resp.Status, string(body)}
	}
	return a, fmt.Errorf("%s: %s", resp.Status, body)
}

// problemOf is the name of a problem; empty: it is none.
func problemOf(body []byte) string {
	var p httpkey.Problem
	if json.Unmarshal(body, &p) != nil {
		return ""
	}
	_, name, _ := strings.Cut(p.Type, "#")
	return name
}

// proxy hands each request to a server, and to the next one if that one breaks off before it has begun to answer: what nginx does with
// "proxy_next_upstream error timeout non_idempotent". Each server is tried once.
type proxy struct {
	servers func() []string // addresses
	wire    *http.Transport
	resent  atomic.Int64 // how often a next one was tried
}

// newProxy starts a proxy, and returns its address.
func newProxy(t *testing.T, servers func() []string) (p *proxy, address string) {
	p = &proxy{servers: servers, wire: &http.Transport{}}
	front := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "server" },
		Transport: p,
		ErrorLog:  log.New(io.Discard, "", 0), // answers are broken off on purpose
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	})
	t.Cleanup(func() { front.Close(); p.wire.CloseIdleConnections() })
	return p, front.Listener.Addr().String()
}

// RoundTrip implements http.RoundTripper.
func (p *proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	failed := errors.New("no server lives")
	for n, address := range p.servers() {
		if n > 0 {
			p.resent.Add(1)
		}
		next := r.Clone(r.Context())
		next.URL.Host = address
		next.Body = io.NopCloser(bytes.NewReader(body))
		resp, err := p.wire.RoundTrip(next)
		if err == nil {
			return resp, nil
		}
		failed = err
	}
	return nil, failed
}
