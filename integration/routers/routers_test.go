package routers_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/httpkey"
	"github.com/ackledger/ackledger/integration/routers"
	"github.com/ackledger/ackledger/ledger/memory"
)

// once is the middleware over a runner that lives as long as the test.
func once(t *testing.T) func(http.Handler) http.Handler {
	t.Helper()
	runner, err := idempotency.New(memory.New(), idempotency.Options{Refuse: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	for deadline := time.Now().Add(time.Minute); !runner.Health().Ready; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the runner is not ready after a minute")
		}
	}
	m, err := httpkey.New(runner, httpkey.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// work is what the handlers of all routers do.
type work struct {
	runs    atomic.Int32
	began   chan struct{} // of a body "wait"
	release chan struct{}
}

func newWork() *work { return &work{began: make(chan struct{}), release: make(chan struct{})} }

// do answers with its run, the path's parameter and the body; what fails is an error of the router's kind.
func (x *work) do(id string, body io.Reader) (status int, text string) {
	n := x.runs.Add(1)
	sent, err := io.ReadAll(body)
	if err != nil {
		return http.StatusInternalServerError, err.Error()
	}
	switch string(sent) {
	case "wait":
		close(x.began)
		<-x.release
	case "poor":
		return http.StatusPaymentRequired, "poor"
	case "broken":
		return http.StatusInternalServerError, "broken"
	}
	return http.StatusCreated, strconv.Itoa(int(n)) + " " + id + " " + string(sent)
}

func chiRouter(once func(http.Handler) http.Handler, x *work) http.Handler {
	h := func(w http.ResponseWriter, r *http.Request) {
		status, text := x.do(chi.URLParam(r, "id"), r.Body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
	r := chi.NewRouter()
	r.Route("/api", func(r chi.Router) { // With, not Use: the pattern is known then
		r.With(once).Post("/pay/{id}", h)
		r.With(once).Post("/refund/{id}", h)
	})
	return r
}

func ginRouter(once func(http.Handler) http.Handler, x *work) http.Handler {
	r := gin.New()
	h := func(c *gin.Context) {
		status, text := x.do(c.Param("id"), c.Request.Body)
		c.String(status, "%s", text)
	}
	r.POST("/api/pay/:id", routers.Gin(once), h)
	r.POST("/api/refund/:id", routers.Gin(once), h)
	return r
}

func echoRouter(once func(http.Handler) http.Handler, x *work) http.Handler {
	r := echo.New()
	h := func(c echo.Context) error {
		status, text := x.do(c.Param("id"), c.Request().Body)
		if status >= 400 {
			return echo.NewHTTPError(status, text)
		}
		return c.String(status, text)
	}
	r.POST("/api/pay/:id", h, routers.Echo(once))
	r.POST("/api/refund/:id", h, routers.Echo(once))
	return r
}

// answer is what a client got.
type answer struct {
	status   int
	body     string
	replayed bool
}

func ask(t *testing.T, url, key, body string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return answer{}
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Error(err)
	}
	return answer{resp.StatusCode, string(text), resp.Header.Get("Idempotent-Replayed") == "true"}
}

// Each router's pattern is in the identity, and answers are given again, refused and released as under net/http's mux.
func TestRouters(t *testing.T) {
	t.Parallel()
	gin.SetMode(gin.ReleaseMode)
	for name, router := range map[string]func(func(http.Handler) http.Handler, *work) http.Handler{"chi": chiRouter, "gin": ginRouter, "echo": echoRouter} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newWork()
			server := httptest.NewServer(router(once(t), x))
			t.Cleanup(server.Close)
			pay, refund := server.URL+"/api/pay/7", server.URL+"/api/refund/7"
			for _, c := range []struct {
				name, url, key, body string
				status               int
				text                 string // of the answer; empty: any
				replayed             bool
				runs                 int32
			}{
				{"first", pay, "k", "a", 201, "1 7 a", false, 1},
				{"again", pay, "k", "a", 201, "1 7 a", true, 1},
				{"another body", pay, "k", "b", 422, "", false, 1},
				{"another path of the pattern", server.URL + "/api/pay/8", "k", "a", 422, "", false, 1},
				{"another pattern", refund, "k", "a", 201, "2 7 a", false, 2},
				{"an error", pay, "poor", "poor", 402, "", false, 3},
				{"an error again", pay, "poor", "poor", 402, "", true, 3},
				{"a failure", pay, "broken", "broken", 500, "", false, 4},
				{"a failure runs again", pay, "broken", "broken", 500, "", false, 5},
			} {
				a := ask(t, c.url, c.key, c.body)
				if a.status != c.status || a.replayed != c.replayed || c.text != "" && a.body != c.text || x.runs.Load() != c.runs {
					t.Errorf("%s: %+v after %d runs", c.name, a, x.runs.Load())
				}
			}
			first := make(chan answer, 1)
			go func() { first <- ask(t, pay, "slow", "wait") }()
			<-x.began
			if a := ask(t, pay, "slow", "wait"); a.status != http.StatusConflict {
				t.Errorf("while it runs: %+v", a)
			}
			close(x.release)
			if a := <-first; a.status != http.StatusCreated || a.replayed {
				t.Errorf("what ran: %+v", a)
			}
		})
	}
}
