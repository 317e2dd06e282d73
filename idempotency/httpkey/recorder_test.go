package httpkey_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/httpkey"
)

// What a handler writes when its request is over, or has panicked, is refused: nobody would get it, and the connection has another request's
// answer by then.
func TestWritesAfterTheEnd(t *testing.T) {
	for _, panics := range []bool{false, true} {
		t.Run(map[bool]string{false: "returned", true: "panicked"}[panics], func(t *testing.T) {
			protocols(t, func(t *testing.T, http2 bool) {
				writers := make(chan http.ResponseWriter, 1)
				e := serve(t, idempotency.Options{}, httpkey.Options{}, func(w http.ResponseWriter, _ *http.Request) {
					writers <- w
					if panics {
						panic(http.ErrAbortHandler)
					}
				}, http2)
				e.server.Config.ErrorLog = quiet
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.server.URL+"/pay/7", strings.NewReader("a"))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Idempotency-Key", "k")
				r.GetBody = nil // the client does not try again by itself
				resp, err := e.server.Client().Do(r)
				if err == nil {
					_ = resp.Body.Close()
				}
				if panics != (err != nil) {
					t.Fatalf("the client has %v", err)
				}
				w := <-writers
				n, err := w.Write([]byte("late"))
				_, _, taken := http.NewResponseController(w).Hijack()
				for what, err := range map[string]error{"Write": err, "Flush": http.NewResponseController(w).Flush(), "Hijack": taken} {
					if n != 0 || err == nil || err.Error() != "httpkey: the request is over" {
						t.Errorf("%s: %d, %v", what, n, err)
					}
				}
			})
		})
	}
}

// What a handler is told of its writes is what net/http would say: how many bytes were taken, also of those that are sent at once. Deadlines reach the connection.
func TestWhatTheWriterSays(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		e := serve(t, idempotency.Options{}, httpkey.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
				t.Errorf("a deadline: %v", err)
			}
			for _, size := range []int{10, 100 << 10, 7} { // kept, too large, and behind that
				if n, err := w.Write(make([]byte, size)); n != size || err != nil {
					t.Errorf("%d bytes: %d, %v", size, n, err)
				}
			}
		}, http2)
		if a := e.ask(asked{key: "k"}); a.status != http.StatusOK || len(a.body) != 10+100<<10+7 {
			t.Errorf("%d, %d bytes", a.status, len(a.body))
		}
	})
}

// An answer that is too large to be kept goes to its client while it is made, and takes no memory.
func TestALargeAnswerGoesAtOnce(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		read := make(chan struct{})
		e := serve(t, idempotency.Options{}, httpkey.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 1<<20))
			select {
			case <-read:
			case <-time.After(30 * time.Second):
				t.Error("the client has read nothing")
			}
		}, http2)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.server.URL+"/pay/7", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", "k")
		resp, err := e.server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		close(read)
		if n, err := io.Copy(io.Discard, resp.Body); n != 1<<20 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

// A handler is told that its client takes nothing, where that is known while it answers.
func TestWritesThatFail(t *testing.T) {
	t.Parallel()
	e := serve(t, idempotency.Options{}, httpkey.Options{}, nil, false)
	wrap, err := httpkey.New(e.runner, httpkey.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func(w http.ResponseWriter) (int, error){
		"too large": func(w http.ResponseWriter) (int, error) { return w.Write(make([]byte, 100<<10)) },
		"flushed":   func(w http.ResponseWriter) (int, error) { return 0, http.NewResponseController(w).Flush() },
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/pay/7", http.NoBody)
		r.Header.Set("Idempotency-Key", strings.ReplaceAll(what, " ", "-"))
		asks := 0
		wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asks++
			if n, err := do(w); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("%s: %d, %v", what, n, err)
			}
		})).ServeHTTP(deaf{http.Header{}}, r)
		if asks != 1 {
			t.Errorf("%s: it has run %d times", what, asks)
		}
	}
}

// An answer that could not be taken over is kept like any other.
func TestNotHijacked(t *testing.T) {
	t.Parallel()
	e := serve(t, idempotency.Options{}, httpkey.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		if _, _, err := http.NewResponseController(w).Hijack(); err == nil {
			t.Error("a stream of HTTP/2 was taken over")
		}
		_, _ = io.WriteString(w, "here")
	}, true)
	for n := range 2 {
		if a := e.ask(asked{key: "k"}); a.body != "here" || a.replayed() != (n == 1) {
			t.Errorf("%d: %+v", n, a)
		}
	}
}

// The client is gone, and the handler flushes: it is told, and what is stored is that there is no answer.
func TestFlushWithoutAClient(t *testing.T) {
	t.Parallel()
	began, gone := make(chan struct{}), make(chan struct{})
	said := make(chan error, 1)
	e := serve(t, idempotency.Options{}, httpkey.Options{}, func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-gone
		var err error
		for deadline := time.Now().Add(time.Minute); err == nil && time.Now().Before(deadline); {
			if _, err = w.Write(make([]byte, 100<<10)); err == nil { // until the connection's buffers are full
				err = http.NewResponseController(w).Flush()
			}
		}
		said <- err
	}, false)
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.server.URL+"/pay/7", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "k")
	go func() {
		<-began
		leave()
	}()
	if resp, err := e.server.Client().Do(r); err == nil {
		_ = resp.Body.Close()
		t.Error("the client has an answer")
	}
	close(gone)
	if err := <-said; err == nil {
		t.Error("the handler was not told that its client is gone")
	}
	if a := e.ask(asked{key: "k"}); a.problem() != httpkey.NotReplayed {
		t.Errorf("again: %+v", a)
	}
}

// A header that is set once the answer has begun is none of it, the first time and again, as in net/http.
func TestHeadersBehindTheStatus(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		e := serve(t, idempotency.Options{}, httpkey.Options{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", "before")
			w.WriteHeader(http.StatusCreated)
			w.Header().Set("ETag", "behind")
			w.Header().Set("Location", "behind")
			w.Header().Set("Content-Type", "text/behind")
			_, _ = io.WriteString(w, "here")
		}, http2)
		for n := range 2 {
			if a := e.ask(asked{key: "k"}); a.replayed() != (n == 1) || a.header.Get("ETag") != "before" || a.header.Get("Location") != "" ||
				a.header.Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("%d: %+v", n, a)
			}
		}
	})
}
