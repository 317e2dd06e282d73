package httpkey_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/ackledger/ackledger/idempotency/httpkey"
)

// infos has what came before the first answer.
func infos(want string) func([]*answer) error {
	return func(all []*answer) error {
		if got := strings.Join(all[0].infos, ","); got != want {
			return fmt.Errorf("first came %q, want %q", got, want)
		}
		return nil
	}
}

// bodyCases are about the bodies of requests.
func bodyCases() []conformance {
	short := httpkey.Options{MaxBody: 10}
	expect := http.Header{"Expect": {"100-continue"}}
	const tooLong = "413 " + httpkey.BodyTooLong
	parsed := func(_ *http.Request, body []byte) ([]byte, error) {
		if !json.Valid(body) {
			return nil, errors.New("not JSON")
		}
		return []byte(strings.ReplaceAll(string(body), " ", "")), nil
	}
	return []conformance{
		{name: "the handler reads the body", source: ours, ask: []asked{{key: "k", body: "abc"}}, want: "201 new", runs: 1, check: bodies(`run 1 of "abc"`)},
		{name: "a body in pieces is read", source: rfc, ask: twice(asked{body: "abc", chunked: true}), want: "201 new, 201 again", runs: 1, check: bodies(`run 1 of "abc"`, `run 1 of "abc"`)},
		{name: "the longest body", source: ours, options: short, ask: []asked{{key: "k", body: "0123456789"}}, want: "201 new", runs: 1},
		{name: "a body too long", source: ours, options: short, ask: []asked{{key: "k", body: "0123456789x"}}, want: tooLong, check: told("at most 10 bytes")},
		{name: "a body in pieces too long", source: ours, options: short, ask: []asked{{key: "k", body: "0123456789x", chunked: true}}, want: tooLong},
		{name: "a key is not taken by a body too long", source: ours, options: short, want: tooLong + ", 201 new", runs: 1,
			ask: then(asked{body: "0123456789x"}, func(q *asked) { q.body = "x" })},
		{name: "100-continue", source: rfc + " 10.1.1", ask: []asked{{key: "k", body: "abc", header: expect}}, want: "201 new", runs: 1,
			check: every(infos("100"), bodies(`run 1 of "abc"`))},
		{name: "100-continue without a key", source: rfc + " 10.1.1", ask: []asked{{body: "abc", header: expect}}, want: "400 " + httpkey.KeyMissing, check: infos("")},
		{name: "100-continue with a body too long", source: rfc + " 10.1.1", options: short, want: tooLong, check: infos(""),
			ask: []asked{{key: "k", body: "0123456789x", header: expect}}},
		{name: "what of a body must be equal", source: ours, options: httpkey.Options{Body: parsed}, want: "201 new, 201 again", runs: 1,
			ask: then(asked{body: "[1]"}, func(q *asked) { q.body = "[ 1 ]" })},
		{name: "a body that cannot be compared", source: ours, options: httpkey.Options{Body: parsed}, want: "400 new", ask: []asked{{key: "k", body: "["}},
			check: every(headers("Content-Type", "application/problem+json"), told("not JSON"))},
	}
}

// keptCases are about which answers are kept: of the others, each request makes its own.
func keptCases() (cases []conformance) {
	for status, source := range map[int]string{200: stripe, 202: ours, 204: ours, 303: ours, 400: stripe, 402: stripe, 404: ours, 409: ours, 422: ours, 499: ours} {
		cases = append(cases, conformance{name: fmt.Sprint("kept: ", status), source: source, run: answering(status), ask: twice(asked{}),
			want: fmt.Sprintf("%d new, %[1]d again", status), runs: 1})
	}
	for status, source := range map[int]string{408: ours, 425: ours, 429: stripe, 500: ours + ", other than Stripe", 503: draft, 599: ours, 999: "net/http takes it"} {
		cases = append(cases, conformance{name: fmt.Sprint("not kept: ", status), source: source, run: answering(status), ask: twice(asked{}),
			want: fmt.Sprintf("%d new, %[1]d new", status), runs: 2})
	}
	conflicts := httpkey.Options{Store: func(status int) bool { return status != http.StatusConflict }}
	return append(cases,
		conformance{name: "not kept: one's own choice", source: ours, options: conflicts, run: answering(409), ask: twice(asked{}), want: "409 new, 409 new", runs: 2},
		conformance{name: "kept: 5xx by one's own choice", source: stripe, options: httpkey.Options{Store: func(int) bool { return true }}, run: answering(500),
			ask: twice(asked{}), want: "500 new, 500 again", runs: 1})
}

func answering(status int) func(int32, http.ResponseWriter, *http.Request) {
	return func(_ int32, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// saying is a handler that sets a header.
func saying(name string, values ...string) func(int32, http.ResponseWriter, *http.Request) {
	return func(_ int32, w http.ResponseWriter, _ *http.Request) {
		w.Header()[name] = values
		_, _ = io.WriteString(w, "{}")
	}
}

// headerCases are about the headers of answers that are given again.
func headerCases() (cases []conformance) {
	for _, c := range []struct {
		name, source string
		values       []string
		first, again string
	}{
		{"Content-Type", stripe, []string{"application/json"}, "application/json", "application/json"},
		{"Content-Type", "net/http guesses", nil, "", ""},
		{"Location", ours, []string{"/pay/9"}, "/pay/9", "/pay/9"},
		{"Etag", ours, []string{`"v1"`}, `"v1"`, `"v1"`},
		{"Link", ours, []string{"</a>", "</b>"}, "</a>,</b>", "</a>,</b>"},
		{"Content-Encoding", rfc + " 8.4: what a body is", []string{"br"}, "br", "br"},
		{"Set-Cookie", ours, []string{"session=secret"}, "session=secret", ""},
		{"X-Trace", ours, []string{"t"}, "t", ""},
		{"X-Outer", "a middleware around it", []string{"mine"}, "mine", "outer"},
	} {
		cases = append(cases, conformance{name: fmt.Sprintf("header %s %q", c.name, c.values), source: c.source, run: saying(c.name, c.values...), ask: twice(asked{}),
			want: "200 new, 200 again", runs: 1, check: every(headers(c.name, c.first, c.again), bodies("{}", "{}"))})
	}
	added := func(_ int32, w http.ResponseWriter, _ *http.Request) { w.Header().Add("Vary", "Accept") }
	vary := headers("Vary", "Origin,Accept", "Origin,Accept")
	return append(cases,
		conformance{name: "headers of one's own choice", source: ours, options: httpkey.Options{KeepHeaders: []string{"x-trace"}}, run: saying("X-Trace", "t"),
			ask: twice(asked{}), want: "200 new, 200 again", runs: 1, check: headers("X-Trace", "t", "t")},
		conformance{name: "an encoding beside headers of one's own choice", source: rfc + " 8.4", options: httpkey.Options{KeepHeaders: []string{"x-trace"}},
			run: saying("Content-Encoding", "br"), ask: twice(asked{}), want: "200 new, 200 again", runs: 1, check: headers("Content-Encoding", "br", "br")},
		conformance{name: "an encoding that one has named", source: rfc + " 8.4", options: httpkey.Options{KeepHeaders: []string{"content-encoding"}},
			run: saying("Content-Encoding", "br"), ask: twice(asked{}), want: "200 new, 200 again", runs: 1, check: headers("Content-Encoding", "br", "br")},
		conformance{name: "a header added to one from around", source: "a middleware around it", options: httpkey.Options{KeepHeaders: []string{"Vary"}},
			run: added, ask: twice(asked{}), want: "200 new, 200 again", runs: 1, check: vary},
		conformance{name: "an encoded body is not guessed", source: "net/http guesses", run: saying("Content-Encoding", "br"), ask: twice(asked{}),
			want: "200 new, 200 again", runs: 1, check: headers("Content-Type", "", "")},
		conformance{name: "a guessed content type", source: "net/http guesses", run: func(_ int32, w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
			ask: twice(asked{}), want: "200 new, 200 again", runs: 1, check: headers("Content-Type", "text/html; charset=utf-8", "text/html; charset=utf-8")})
}

// sentCases are about answers that are sent in other ways than at once.
func sentCases() []conformance {
	const tombstone = "200 new, 409 " + httpkey.NotReplayed
	flush := func(w http.ResponseWriter) {
		if err := http.NewResponseController(w).Flush(); err != nil {
			panic(err)
		}
	}
	trailers := func(flushed bool) func(int32, http.ResponseWriter, *http.Request) {
		return func(_ int32, w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h.Set("Trailer", "X-Sum, X-Count")
			_, _ = io.WriteString(w, "a")
			if flushed {
				flush(w)
			}
			h.Set("X-Sum", "1")
			h.Set("X-Count", "3")
			h.Set(http.TrailerPrefix+"X-Late", "2")
		}
	}
	sums := func(all []*answer) error {
		if a := all[0]; a.trailer.Get("X-Sum") != "1" || a.trailer.Get("X-Count") != "3" || a.trailer.Get("X-Late") != "2" || a.header.Get("X-Sum") != "" || all[1].header.Get("X-Sum") != "" {
			return fmt.Errorf("trailers %v, headers %v, again %v", a.trailer, a.header, all[1].header)
		}
		return nil
	}
	hints := func(_ int32, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.WriteHeader(http.StatusCreated)
	}
	hinted := func(all []*answer) error {
		if got := strings.Join(all[0].infos, ","); got != "103 </style.css>" || len(all[1].infos) > 0 {
			return fmt.Errorf("informed of %q, and again of %q", got, all[1].infos)
		}
		return headers("Link", "", "")(all)
	}
	return []conformance{
		{name: "flushed", source: ours, ask: twice(asked{}), want: tombstone, runs: 1,
			run: func(_ int32, w http.ResponseWriter, _ *http.Request) { flush(w); _, _ = io.WriteString(w, "a") }},
		{name: "flushed 5xx", source: ours, ask: twice(asked{}), want: "500 new, 409 " + httpkey.NotReplayed, runs: 1,
			run: func(_ int32, w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusInternalServerError)
				flush(w)
			}},
		{name: "too large", source: large, ask: twice(asked{}), want: tombstone, runs: 1,
			run: func(_ int32, w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) }},
		{name: "trailers", source: rfc + " 6.5", ask: twice(asked{}), want: "200 new, 200 again", runs: 1, run: trailers(false), check: sums},
		{name: "trailers after a flush", source: rfc + " 6.5", ask: twice(asked{}), want: tombstone, runs: 1, run: trailers(true), check: sums},
		{name: "early hints", source: "RFC 8297", ask: twice(asked{}), want: "201 new, 201 again", runs: 1, run: hints, check: hinted},
		{name: "informed with 100", source: rfc + " 15.2.1", ask: twice(asked{}), want: "201 new, 201 again", runs: 1, check: infos("100"),
			run: func(_ int32, w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusContinue)
				w.WriteHeader(http.StatusCreated)
			}},
		{name: "status written twice", source: "net/http takes the first", ask: twice(asked{}), want: "201 new, 201 again", runs: 1,
			run: func(_ int32, w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusCreated)
				w.WriteHeader(http.StatusAccepted)
			}},
		{name: "status written after the body", source: "net/http takes 200", ask: twice(asked{}), want: "200 new, 200 again", runs: 1,
			run: func(_ int32, w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "a")
				w.WriteHeader(http.StatusCreated)
			}},
		{name: "released, then kept", source: stripe, ask: append(twice(asked{}), asked{key: "k"}), want: "503 new, 201 new, 201 again", runs: 2,
			run: func(n int32, w http.ResponseWriter, _ *http.Request) { w.WriteHeader([]int{0, 503, 201}[n]) }},
	}
}

// bareCases are about answers without a body.
func bareCases() []conformance {
	return []conformance{
		{name: "no body where none may be", source: rfc + " 15.3.5", ask: twice(asked{}), want: "204 new, 204 again", runs: 1,
			run: func(_ int32, w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusNoContent)
				if _, err := w.Write([]byte("a")); !errors.Is(err, http.ErrBodyNotAllowed) {
					panic(fmt.Sprint("a body was taken: ", err))
				}
			}},
		{name: "no body where nothing has changed", source: rfc + " 15.4.5", ask: twice(asked{}), want: "304 new, 304 again", runs: 1,
			run: func(_ int32, w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusNotModified)
				if _, err := w.Write([]byte("a")); !errors.Is(err, http.ErrBodyNotAllowed) {
					panic(fmt.Sprint("a body was taken: ", err))
				}
			}},
		{name: "no answer at all", source: "net/http answers 200", ask: twice(asked{}), want: "200 new, 200 again", runs: 1,
			check: every(headers("Content-Type", "", ""), bodies("", "")), run: func(int32, http.ResponseWriter, *http.Request) {}},
	}
}
