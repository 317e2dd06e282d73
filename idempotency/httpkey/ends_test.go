package httpkey_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/httpkey"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// What has failed for good is told as that, again and again, with no more of its error than one wants clients to see.
func TestFailedForGood(t *testing.T) {
	for name, o := range map[string]httpkey.Options{
		"quiet": {}, "told": {FailureText: func(f *idempotency.FailedError) string { return "it says: " + f.Text }},
	} {
		t.Run(name, func(t *testing.T) {
			protocols(t, func(t *testing.T, http2 bool) {
				core, logs := observer.New(zapcore.WarnLevel)
				o := o
				o.Logger = zap.New(core)
				h, runs := counted(http.StatusCreated)
				e := serve(t, idempotency.Options{}, o, h, http2)
				q := idempotency.Request{Scope: "POST /pay/{id}", Key: "k", Body: []byte("POST\n/pay/7\n\n\n")}
				_, err := e.runner.Do(t.Context(), q, func(context.Context) (idempotency.Result, error) {
					return idempotency.Result{}, consumer.Terminal(errors.New("no key today"))
				})
				if _, failed := errors.AsType[*idempotency.FailedError](err); !failed {
					t.Fatal(err)
				}
				for n := range 2 {
					a := e.ask(asked{key: "k"})
					if a.status != http.StatusInternalServerError || a.problem() != httpkey.Failed || a.header.Get("Retry-After") != "" || a.replayed() || runs.Load() != 0 {
						t.Errorf("%d: %+v after %d runs", n, a, runs.Load())
					}
					if told := strings.Contains(a.body, "it says: "); told != (name == "told") || strings.Contains(a.body, "no key today") != told {
						t.Errorf("%d: its client is told %s", n, a.body)
					}
				}
				if n := logs.FilterMessage("a request was not answered as asked").Len(); n != 2 {
					t.Errorf("operators are told %d times", n)
				}
			})
		})
	}
}

// A handler goes on although its request is its own no more. Its client gets what another run has answered; where nobody has, that it is not
// known.
func TestTheLeaseIsLost(t *testing.T) {
	for _, taken := range []bool{true, false} {
		t.Run(map[bool]string{true: "taken over", false: "not taken over"}[taken], func(t *testing.T) {
			protocols(t, func(t *testing.T, http2 bool) {
				l := memory.New()
				lost, release := make(chan struct{}), make(chan struct{})
				stale := serveOn(t, l, idempotency.Options{}, httpkey.Options{}, func(w http.ResponseWriter, r *http.Request) {
					a, _ := ledger.AttemptFrom(r.Context())
					if taken {
						l.Declare(a.Owner().ID())
					} else {
						l.Drop(ledger.Key{Scope: "POST /pay/{id}", ID: []byte("/k")})
					}
					close(lost)
					<-release
					w.WriteHeader(http.StatusOK)
					_, _ = io.WriteString(w, "stale")
				}, http2)
				fresh := serveOn(t, l, idempotency.Options{}, httpkey.Options{}, func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(http.StatusAccepted)
					_, _ = io.WriteString(w, "fresh")
				}, http2)
				var first sync.WaitGroup
				first.Go(func() {
					a := stale.ask(asked{key: "k"})
					if taken && (a.status != http.StatusAccepted || a.body != "fresh" || !a.replayed()) {
						t.Errorf("who had lost it: %+v", a)
					}
					if !taken && (a.status != http.StatusInternalServerError || a.problem() != httpkey.Unknown || a.header.Get("Retry-After") != "1") {
						t.Errorf("who had lost it: %+v", a)
					}
				})
				<-lost
				if taken {
					if a := fresh.ask(asked{key: "k"}); a.status != http.StatusAccepted || a.replayed() {
						t.Errorf("who took it over: %+v", a)
					}
				}
				close(release)
				first.Wait()
				if a := fresh.ask(asked{key: "k"}); a.status != http.StatusAccepted || a.body != "fresh" || a.replayed() != taken {
					t.Errorf("afterwards: %+v", a)
				}
			})
		})
	}
}

// A body that breaks off, or is none, is answered as that, and the handler does not run.
func TestABrokenBody(t *testing.T) {
	t.Parallel()
	h, runs := counted(http.StatusCreated)
	e := serve(t, idempotency.Options{}, httpkey.Options{}, h, false)
	conn, err := net.Dial("tcp", e.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST /pay/7 HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\nno length\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), `"type":"about:blank","title":"The request's body cannot be read"`) || runs.Load() != 0 {
		t.Errorf("%d %s, %v after %d runs", resp.StatusCode, body, err, runs.Load())
	}
}

// Whoever has left while it waited may still read, and is told that nothing was done. Nobody needs to look at that.
func TestWhoWaitedIsGone(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		began, release := make(chan struct{}), make(chan struct{})
		arrived, over := make(chan struct{}, 2), make(chan struct{}, 2)
		core, logs := observer.New(zapcore.WarnLevel)
		var told atomic.Int32
		e := serve(t, idempotency.Options{Wait: time.Hour}, httpkey.Options{Logger: zap.New(core), OnProblem: func(_ http.ResponseWriter, _ *http.Request, p *httpkey.Problem) {
			told.Store(int32(p.Status))
		}}, func(http.ResponseWriter, *http.Request) {
			close(began)
			<-release
		}, http2)
		inner := e.server.Config.Handler
		e.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			inner.ServeHTTP(w, r)
			over <- struct{}{}
		})
		var first sync.WaitGroup
		first.Go(func() { e.ask(asked{key: "k"}) })
		<-arrived
		<-began
		ctx, leave := context.WithCancel(t.Context())
		first.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.server.URL+"/pay/7", http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Idempotency-Key", "k")
			if resp, err := e.server.Client().Do(r); err == nil {
				_ = resp.Body.Close()
				t.Error("who left has an answer")
			}
		})
		<-arrived
		leave()
		<-over
		if told.Load() != http.StatusServiceUnavailable || logs.Len() != 0 {
			t.Errorf("told %d, logged: %v", told.Load(), logs.All())
		}
		close(release)
		first.Wait()
	})
}
