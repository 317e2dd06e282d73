package httpkey_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/httpkey"
)

// counted is a handler that answers with the number of its run and what was sent.
func counted(status int) (h http.HandlerFunc, runs *atomic.Int32) {
	runs = &atomic.Int32{}
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		w.Header().Set("Location", "/payments/9")
		w.Header().Set("Set-Cookie", "session=secret")
		w.Header().Set("X-Trace", "t")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, "run %d of %q", runs.Add(1), body)
	}, runs
}

// protocols runs a test over HTTP/1.1 and HTTP/2.
func protocols(t *testing.T, test func(t *testing.T, http2 bool)) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		t.Run(map[bool]string{false: "1.1", true: "2"}[http2], func(t *testing.T) {
			t.Parallel()
			test(t, http2)
		})
	}
}

// What one request says of itself, and the next.
func TestRepetitions(t *testing.T) {
	json := http.Header{"Content-Type": {"application/json"}}
	first := asked{key: "k", body: "{}", header: json}
	with := func(change func(*asked)) asked {
		q := first
		change(&q)
		return q
	}
	for _, c := range []struct {
		name   string
		second asked
		want   string // "again", "new", or a problem
	}{
		{"the same", first, "again"},
		{"its key in quotes", with(func(q *asked) { q.key = `"k"` }), "again"},
		{"another key", with(func(q *asked) { q.key = "l" }), "new"},
		{"another body", with(func(q *asked) { q.body = "{ }" }), httpkey.KeyReused},
		{"no body", with(func(q *asked) { q.body = "" }), httpkey.KeyReused},
		{"another path of the route", with(func(q *asked) { q.path = "/pay/8" }), httpkey.KeyReused},
		{"another route", with(func(q *asked) { q.path = "/refund/7" }), "new"},
		{"another method", with(func(q *asked) { q.method = http.MethodPatch }), "new"},
		{"a query", with(func(q *asked) { q.path = "/pay/7?a=1" }), httpkey.KeyReused},
		{"another content type", with(func(q *asked) { q.header = http.Header{"Content-Type": {"text/json"}} }), httpkey.KeyReused},
		{"the content type written otherwise", with(func(q *asked) { q.header = http.Header{"Content-Type": {"Application/JSON "}} }), "again"},
		{"another header", with(func(q *asked) { q.header = http.Header{"Content-Type": json["Content-Type"], "User-Agent": {"other"}} }), "again"},
		{"another caller", with(func(q *asked) { q.header = http.Header{"Content-Type": json["Content-Type"], "Tenant": {"b"}} }), "new"},
		{"without a key", with(func(q *asked) { q.key = "" }), httpkey.KeyMissing},
		{"GET", with(func(q *asked) { q.method = http.MethodGet }), "new"},
		{"DELETE without a key", with(func(q *asked) { q.method, q.key = http.MethodDelete, "" }), "new"},
		{"PUT with a key", with(func(q *asked) { q.method = http.MethodPut }), "new"},
	} {
		t.Run(c.name, func(t *testing.T) {
			protocols(t, func(t *testing.T, http2 bool) {
				h, runs := counted(http.StatusCreated)
				e := serve(t, idempotency.Options{}, httpkey.Options{Caller: func(r *http.Request) string { return r.Header.Get("Tenant") }}, h, http2)
				was := e.ask(first)
				if was.status != http.StatusCreated || was.replayed() || was.body != `run 1 of "{}"` || was.header.Get("Set-Cookie") == "" {
					t.Fatalf("first: %+v", was)
				}
				is := e.ask(c.second)
				switch c.want {
				case "again":
					if !is.replayed() || is.status != was.status || is.body != was.body || is.header.Get("Location") != "/payments/9" ||
						is.header.Get("Set-Cookie") != "" || is.header.Get("X-Trace") != "" || runs.Load() != 1 {
						t.Errorf("again: %+v", is)
					}
				case "new":
					if is.replayed() || is.status != http.StatusCreated || runs.Load() != 2 {
						t.Errorf("new: %+v", is)
					}
				default:
					want := map[string]int{httpkey.KeyReused: 422, httpkey.KeyMissing: 400}[c.want]
					if is.problem() != c.want || is.status != want || runs.Load() != 1 {
						t.Errorf("%+v, want %s", is, c.want)
					}
				}
			})
		})
	}
}

// Which keys are keys.
func TestKeys(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 255)
	for _, c := range []struct {
		values       []string
		bare, strict bool // taken
	}{
		{[]string{"k"}, true, false}, {[]string{`"k"`}, true, true}, {[]string{`"a\"b\\c"`}, true, true}, {[]string{" k\t"}, true, false},
		{[]string{""}, false, false}, {[]string{`""`}, false, false}, {[]string{`"k`}, false, false}, {[]string{`"k"x`}, false, false},
		{[]string{`"k";a=1`}, false, false}, {[]string{`"a\nb"`}, false, false}, {[]string{"\"\xc3\xa9\""}, false, false}, {[]string{"\xc3\xa9"}, true, false},
		{[]string{"a", "a"}, false, false}, {[]string{"a b"}, false, false}, {[]string{`"a b"`}, false, false},
		{[]string{long}, true, false}, {[]string{long + "k"}, false, false}, {[]string{`"` + long + `"`}, true, true},
		{[]string{"8e03978e-40d5-43e8-bc93-6894a57f9324"}, true, false},
	} {
		for _, strict := range []bool{false, true} {
			t.Run(fmt.Sprintf("%.20q/%t", c.values, strict), func(t *testing.T) {
				t.Parallel()
				h, runs := counted(http.StatusOK)
				e := serve(t, idempotency.Options{}, httpkey.Options{Strict: strict}, h, false)
				a := e.ask(asked{header: http.Header{"Idempotency-Key": c.values}})
				want := c.bare && !strict || c.strict && strict
				if want != (a.status == http.StatusOK) || want != (runs.Load() == 1) || !want && (a.status != http.StatusBadRequest || a.problem() != httpkey.KeyInvalid) {
					t.Errorf("%+v after %d runs", a, runs.Load())
				}
			})
		}
	}
}

// Which answers are kept.
func TestStatuses(t *testing.T) {
	t.Parallel()
	for status, kept := range map[int]bool{200: true, 202: true, 204: true, 303: true, 400: true, 402: true, 404: true, 409: true, 422: true,
		408: false, 425: false, 429: false, 500: false, 502: false, 503: false} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			runs := 0
			e := serve(t, idempotency.Options{}, httpkey.Options{}, func(w http.ResponseWriter, _ *http.Request) {
				runs++
				w.WriteHeader(status)
			}, false)
			e.server.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			for n := range 3 {
				a := e.ask(asked{key: "k"})
				if a.status != status || a.replayed() != (kept && n > 0) {
					t.Errorf("%d: %+v", n, a)
				}
			}
			if want := map[bool]int{true: 1, false: 3}[kept]; runs != want {
				t.Errorf("%d runs, want %d", runs, want)
			}
		})
	}
}

// What is to be asked for again never fails for good, however often it is.
func TestReleasedForEver(t *testing.T) {
	t.Parallel()
	runs := 0
	e := serve(t, idempotency.Options{Attempts: 2}, httpkey.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		if runs++; runs <= 20 {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}, false)
	for n := range 22 {
		want := http.StatusTooManyRequests
		if n >= 20 {
			want = http.StatusOK
		}
		if a := e.ask(asked{key: "k"}); a.status != want || a.replayed() != (n == 21) {
			t.Errorf("%d: %+v", n, a)
		}
	}
}

// What was sent piece by piece, taken over, or is larger than what is kept, was done once, and has no answer to be given again.
func TestAnswersThatAreNotKept(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"flushed": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "one")
			if err := http.NewResponseController(w).Flush(); err != nil {
				panic(err)
			}
			_, _ = io.WriteString(w, "two")
		},
		"flushed at once": func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			_, _ = io.WriteString(w, "onetwo")
		},
		"too large": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100<<10)) },
		"too large by its headers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", strings.Repeat("l", 70<<10))
		},
		"too large in pieces": func(w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				_, _ = w.Write(make([]byte, 1<<10))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			protocols(t, func(t *testing.T, http2 bool) {
				var runs atomic.Int32
				e := serve(t, idempotency.Options{}, httpkey.Options{}, func(w http.ResponseWriter, r *http.Request) { runs.Add(1); h(w, r) }, http2)
				if a := e.ask(asked{key: "k"}); a.status != http.StatusOK || strings.HasPrefix(name, "flushed") && a.body != "onetwo" || strings.HasPrefix(name, "too") && len(a.body) != 100<<10 && a.header.Get("Location") == "" {
					t.Errorf("first: %d, %d bytes", a.status, len(a.body))
				}
				if a := e.ask(asked{key: "k"}); a.status != http.StatusConflict || a.problem() != httpkey.NotReplayed || runs.Load() != 1 {
					t.Errorf("again: %+v, %d runs", a, runs.Load())
				}
			})
		})
	}
}

// A thousand requests with one key at once: one effect, one answer for all.
func TestAThousandAtOnce(t *testing.T) {
	protocols(t, func(t *testing.T, http2 bool) {
		h, runs := counted(http.StatusCreated)
		e := serve(t, idempotency.Options{Wait: time.Hour}, httpkey.Options{}, h, http2)
		e.ask(asked{method: http.MethodGet}) // one connection for all, where there may be one
		runs.Store(0)
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				if a := e.ask(asked{key: "k", body: "b"}); a.status != http.StatusCreated || a.body != `run 1 of "b"` {
					t.Errorf("%+v", a)
				}
			})
		}
		all.Wait()
		if runs.Load() != 1 {
			t.Errorf("%d runs", runs.Load())
		}
	})
}
