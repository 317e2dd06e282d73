package httpkey_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/httpkey"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// TestPitfall176_WhoSeemsGoneStillReads: a client that had closed its half of the connection, or whose request's context had ended with
// the server's, was told 200, and nothing was done.
func TestPitfall176_WhoSeemsGoneStillReads(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}), make(chan struct{})
	e := serve(t, idempotency.Options{Wait: time.Hour}, httpkey.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-release
		w.WriteHeader(http.StatusCreated)
	}, false)
	inner, ends := e.server.Config.Handler, make(chan context.CancelFunc, 1)
	e.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // as with Server.BaseContext
		ctx, end := context.WithCancel(r.Context())
		defer end()
		ends <- end
		inner.ServeHTTP(w, r.WithContext(ctx))
	})
	var first sync.WaitGroup
	first.Go(func() {
		if a := e.ask(asked{key: "k"}); a.status != http.StatusCreated {
			t.Errorf("the first: %+v", a)
		}
	})
	<-began
	<-ends
	first.Go(func() { (<-ends)() })
	if a := e.ask(asked{key: "k"}); a.status != http.StatusServiceUnavailable || a.problem() != httpkey.Unavailable {
		t.Errorf("whose context has ended: %+v", a)
	}
	close(release)
	first.Wait()
}

// A client that closes its half is gone, as net/http has it: it may be served or not, and is told which.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	h, runs := counted(http.StatusCreated)
	e := serveOn(t, openFile(t), idempotency.Options{}, httpkey.Options{}, h, false)
	for n := range int32(20) {
		before := runs.Load()
		conn, err := net.Dial("tcp", e.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err = fmt.Fprintf(conn, "POST /pay/7 HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k%d\r\nContent-Length: 1\r\n\r\na", n); err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(conn)
		want := map[int32]string{0: "HTTP/1.1 503", 1: "HTTP/1.1 201"}[runs.Load()-before]
		if err != nil || !strings.HasPrefix(string(all), want) {
			t.Fatalf("%.40q after %d runs: %v", all, runs.Load()-before, err)
		}
		_ = conn.Close()
	}
}

// TestPitfall177_DrainAfterABlip: an outage that was over long ago was taken for one, and a runner that drained ran unprotected what it had
// done before (WithoutLedger).
func TestPitfall177_DrainAfterABlip(t *testing.T) {
	t.Parallel()
	l := memory.New()
	r, err := idempotency.New(l, idempotency.Options{Lease: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	until(t, func() bool { return r.Health().Ready })
	var beats atomic.Int32
	l.FailBefore(func(_ context.Context, op memory.Op) error {
		if op == memory.Beat && beats.Add(1) == 1 {
			return ledger.MarkUnavailable(errors.New("a blip"))
		}
		return nil
	})
	until(t, func() bool { return beats.Load() > 1 && r.Health().Ready })
	running, release := make(chan struct{}), make(chan struct{})
	go func() {
		_, _ = r.Do(context.Background(), idempotency.Request{Scope: "s", Key: "slow"}, func(context.Context) (idempotency.Result, error) {
			close(running)
			<-release
			return idempotency.Result{}, nil
		})
	}()
	<-running
	cancel() // the drain waits for it
	until(t, func() bool { return !r.Health().Ready })
	if _, err := r.Do(t.Context(), idempotency.Request{Scope: "s", Key: "k"}, nil); !errors.Is(err, idempotency.ErrNotRunning) {
		t.Errorf("in a drain: %v", err)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestPitfall178_BodyReadBefore: of a body that an outer handler had read in part, or whole where its length was not announced, the rest
// counted: another body got the answer of the first.
func TestPitfall178_BodyReadBefore(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		h, runs := counted(http.StatusCreated)
		e := serve(t, idempotency.Options{}, httpkey.Options{}, h, http2)
		inner, most := e.server.Config.Handler, int64(0)
		e.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.CopyN(io.Discard, r.Body, most)
			inner.ServeHTTP(w, r)
		})
		for _, q := range []struct {
			most    int64
			chunked bool
			status  int
		}{{4, false, http.StatusInternalServerError}, {100, false, http.StatusInternalServerError}, {100, true, http.StatusLengthRequired}} {
			most = q.most
			for _, body := range []string{"0001 cents", "0999 cents"} {
				if a := e.ask(asked{key: "k", body: body, chunked: q.chunked}); a.status != q.status {
					t.Errorf("%+v: %d %s", q, a.status, a.body)
				}
			}
		}
		if n := runs.Load(); n != 0 {
			t.Errorf("%d runs", n)
		}
	})
}

// TestPitfall179_EncodedAround: an encoding that a handler around had set was replayed with a body that was not encoded.
func TestPitfall179_EncodedAround(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		h, _ := counted(http.StatusCreated)
		e := serve(t, idempotency.Options{}, httpkey.Options{}, h, http2)
		inner := e.server.Config.Handler
		e.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Encode") != "" { // as compressors do, before they know what comes
				w.Header().Set("Content-Encoding", "of-the-outer")
			}
			inner.ServeHTTP(w, r)
		})
		first := e.ask(asked{key: "k", header: http.Header{"Encode": {"yes"}}})
		plain := e.ask(asked{key: "k"})
		if plain.header["Content-Encoding"] != nil || !plain.replayed() || plain.body != first.body {
			t.Errorf("first %+v, then %+v", first, plain)
		}
		if again := e.ask(asked{key: "k", header: http.Header{"Encode": {"yes"}}}); again.header.Get("Content-Encoding") != "of-the-outer" {
			t.Errorf("encoded anew: %+v", again)
		}
	})
}

// TestPitfall181_Upgrades: a handler that answered 101 and took the connection over sent no 101.
func TestPitfall181_Upgrades(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{http.StatusSwitchingProtocols: "HTTP/1.1 101 Switching Protocols\r\n", http.StatusOK: "HTTP/1.1 200 OK\r\n"} {
		e := serve(t, idempotency.Options{}, httpkey.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Upgrade", "x")
			w.WriteHeader(status)
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "hello")
		}, false)
		conn, err := net.Dial("tcp", e.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "POST /pay/7 HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 0\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(conn)
		if got := string(all); err != nil || !strings.HasPrefix(got, want) || !strings.Contains(got, "Upgrade: x\r\n") || !strings.HasSuffix(got, "hello") {
			t.Errorf("%d: %q, %v", status, got, err)
		}
		if a := e.ask(asked{key: "k"}); a.status != http.StatusConflict || a.problem() != httpkey.NotReplayed {
			t.Errorf("%d, asked again: %+v", status, a)
		}
	}
}

// Nothing is written to an answer that has no body, which is no error.
func TestEmptyWrites(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		e := serve(t, idempotency.Options{}, httpkey.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			if n, err := w.Write(nil); n != 0 || err != nil {
				t.Errorf("wrote %d: %v", n, err)
			}
			if _, err := io.WriteString(w, "x"); !errors.Is(err, http.ErrBodyNotAllowed) {
				t.Errorf("a body: %v", err)
			}
		}, http2)
		if a := e.ask(asked{key: "k"}); a.status != http.StatusNoContent {
			t.Errorf("%+v", a)
		}
	})
}

// A multipart form is encoded with another boundary each time: who says what counts of its body has said it.
func TestBoundaries(t *testing.T) {
	t.Parallel()
	form := func(boundary string) (asked, error) {
		var body strings.Builder
		w := multipart.NewWriter(&body)
		err := errors.Join(w.SetBoundary(boundary), w.WriteField("cents", "7"), w.Close())
		return asked{key: "k", body: body.String(), header: http.Header{"Content-Type": {w.FormDataContentType()}}}, err
	}
	counts := func(*http.Request, []byte) ([]byte, error) { return []byte("cents=7"), nil }
	for _, own := range []bool{true, false} {
		o, want := httpkey.Options{}, http.StatusUnprocessableEntity
		if own {
			o.Body, want = counts, http.StatusCreated
		}
		h, _ := counted(http.StatusCreated)
		e := serve(t, idempotency.Options{}, o, h, false)
		for n, boundary := range []string{"one", "two"} {
			q, err := form(boundary)
			if err != nil {
				t.Fatal(err)
			}
			if a := e.ask(q); n == 0 && a.status != http.StatusCreated || n == 1 && a.status != want {
				t.Errorf("own %t, boundary %q: %+v", own, boundary, a)
			}
		}
	}
}
