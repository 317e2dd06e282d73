package httpkey_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/httpkey"
)

// The sources of cases.
const (
	draft  = "draft-ietf-httpapi-idempotency-key-header-07"
	stripe = "docs.stripe.com/api/idempotent_requests"
	others = "gofiber/fiber, middleware/idempotency" // compares no body
	large  = "gofiber/fiber#4287, #4693"             // an answer that was too large was not stored, and its request ran again
	rfc    = "RFC 9110"
	ours   = "options.go"
)

// conformance is one case: requests one after the other, and what each is answered.
type conformance struct {
	name, source string
	run          func(n int32, w http.ResponseWriter, r *http.Request) // the handler's n-th run, from 1; nil: 201 and what was sent
	options      httpkey.Options
	ask          []asked
	want         string // of each answer: status and "new", "again" or a problem's name
	runs         int32
	check        func(all []*answer) error // what else holds
}

func TestConformance(t *testing.T) {
	cases := slicesOf(identityCases(), keyCases(), bodyCases(), keptCases(), headerCases(), sentCases(), bareCases())
	if len(cases) < 60 {
		t.Errorf("%d cases, want 60", len(cases))
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			protocols(t, func(t *testing.T, http2 bool) { c.play(t, http2) })
		})
	}
}

func slicesOf(lists ...[]conformance) (all []conformance) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// play runs a case on a server of its own.
func (c *conformance) play(t *testing.T, http2 bool) {
	var runs atomic.Int32
	run := c.run
	if run == nil {
		run = echo
	}
	o := c.options
	if o.Caller == nil {
		o.Caller = func(r *http.Request) string { return r.Header.Get("Tenant") }
	}
	e := serve(t, idempotency.Options{}, o, func(w http.ResponseWriter, r *http.Request) { run(runs.Add(1), w, r) }, http2)
	var all []*answer
	var got []string
	for _, q := range c.ask {
		a := e.ask(q)
		kind := a.problem()
		switch {
		case kind == "" && a.replayed():
			kind = "again"
		case kind == "":
			kind = "new"
		}
		all, got = append(all, a), append(got, fmt.Sprint(a.status, " ", kind))
	}
	if text := strings.Join(got, ", "); text != c.want || runs.Load() != c.runs {
		t.Errorf("%s: %s after %d runs, want %s after %d", c.source, text, runs.Load(), c.want, c.runs)
	}
	if c.check != nil {
		if err := c.check(all); err != nil {
			t.Errorf("%s: %v", c.source, err)
		}
	}
}

// echo answers with its run and what was sent.
func echo(n int32, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Location", "/pay/9")
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, "run %d of %q", n, body)
}

// twice is a request and its repetition.
func twice(q asked) []asked { q.key = cmp.Or(q.key, "k"); return []asked{q, q} }

// then is a request, and another one that differs.
func then(first asked, change func(*asked)) []asked {
	first.key = cmp.Or(first.key, "k")
	second := first
	second.header = first.header.Clone()
	if second.header == nil {
		second.header = http.Header{}
	}
	change(&second)
	return []asked{first, second}
}

// equal has all answers of one body.
func equal(all []*answer) error {
	for _, a := range all {
		if a.body != all[0].body {
			return fmt.Errorf("%q, then %q", all[0].body, a.body)
		}
	}
	return nil
}

// bodies has each answer's body.
func bodies(want ...string) func([]*answer) error {
	return func(all []*answer) error {
		for n, a := range all {
			if a.body != want[n] {
				return fmt.Errorf("body %d: %q, want %q", n, a.body, want[n])
			}
		}
		return nil
	}
}

// headers has each answer's values of a header.
func headers(name string, want ...string) func([]*answer) error {
	return func(all []*answer) error {
		for n, a := range all {
			if got := strings.Join(a.header.Values(name), ","); got != want[n] {
				return fmt.Errorf("%s of answer %d: %q, want %q", name, n, got, want[n])
			}
		}
		return nil
	}
}

// told has the last answer say something.
func told(what string) func([]*answer) error {
	return func(all []*answer) error {
		if a := all[len(all)-1]; !strings.Contains(a.body, what) {
			return fmt.Errorf("%q, want a word of %q", a.body, what)
		}
		return nil
	}
}

// every has all of several checks.
func every(checks ...func([]*answer) error) func([]*answer) error {
	return func(all []*answer) error {
		var errs []error
		for _, check := range checks {
			errs = append(errs, check(all))
		}
		return errors.Join(errs...)
	}
}

// identityCases are about which requests are one.
func identityCases() []conformance {
	const again, reused, fresh = "201 new, 201 again", "201 new, 422 " + httpkey.KeyReused, "201 new, 201 new"
	a := asked{body: "{}", header: http.Header{"Content-Type": {"application/json; charset=utf-8"}}}
	query := func(first, second string) []asked {
		return then(asked{path: "/pay/7?" + first}, func(q *asked) { q.path = "/pay/7?" + second })
	}
	kind := func(text string) func(*asked) { return func(q *asked) { q.header.Set("Content-Type", text) } }
	long := strings.Repeat("tenant", 100)
	var cases []conformance
	for _, c := range []struct {
		name, source string
		ask          []asked
		want         string
	}{
		{"the same request", draft + " 2.6", twice(a), again},
		{"another body", draft + " 2.7, " + others, then(a, func(q *asked) { q.body = "[]" }), reused},
		{"a body that was empty", draft + " 2.7, " + others, then(asked{}, func(q *asked) { q.body = "x" }), reused},
		{"no body again", draft + " 2.6", twice(asked{}), again},
		{"another path", stripe, then(a, func(q *asked) { q.path = "/pay/8" }), reused},
		{"another route", ours, then(a, func(q *asked) { q.path = "/refund/7" }), fresh},
		{"another method", ours, then(a, func(q *asked) { q.method = http.MethodPatch }), fresh},
		{"another tenant", ours, then(a, func(q *asked) { q.header.Set("Tenant", "b") }), fresh},
		{"a long tenant", ours, then(a, func(q *asked) { q.header.Set("Tenant", long) }), fresh},
		{"two long tenants", ours, then(asked{header: http.Header{"Tenant": {long + "a"}}}, func(q *asked) { q.header.Set("Tenant", long+"b") }), fresh},
		{"a slash between tenant and key", ours, then(asked{header: http.Header{"Tenant": {"a/b"}}, key: "c"}, func(q *asked) { q.header.Set("Tenant", "a"); q.key = "b/c" }), fresh},
		{"a query in another order", ours, query("a=1&b=2", "b=2&a=1"), again},
		{"a query written otherwise", ours, query("a=%41", "a=A"), again},
		{"values in another order", ours, query("a=1&a=2", "a=2&a=1"), reused},
		{"another query", ours, query("a=1", "a=2"), reused},
		{"another query that does not parse", ours, query("a=%zz", "a=%yy"), reused},
		{"another query with semicolons", ours, query("a;b", "a;c"), reused},
		{"the same query that does not parse", ours, query("a=%zz", "a=%zz"), again},
		{"another content type", ours, then(a, kind("text/plain")), reused},
		{"another charset", ours, then(a, kind("application/json; charset=latin1")), reused},
		{"a content type written otherwise", ours, then(a, kind(`Application/JSON;Charset="utf-8"`)), again},
		{"content types that do not parse", ours, then(asked{header: http.Header{"Content-Type": {"a b"}}}, kind("c d")), reused},
		{"another header", ours, then(a, func(q *asked) { q.header.Set("X-Request-Id", "2") }), again},
		{"a body in pieces", rfc, then(asked{body: "abc"}, func(q *asked) { q.chunked = true }), again},
	} {
		runs := int32(1)
		if c.want == fresh {
			runs = 2
		}
		x := conformance{name: c.name, source: c.source, ask: c.ask, want: c.want, runs: runs}
		if c.want == again {
			x.check = equal
		}
		cases = append(cases, x)
	}
	return cases
}

// keyCases are about the header with the key, and about who needs one.
func keyCases() []conformance {
	const valid, invalid, missing = "201 new", "400 " + httpkey.KeyInvalid, "400 " + httpkey.KeyMissing
	values := func(all ...string) []asked { return []asked{{header: http.Header{"Idempotency-Key": all}}} }
	method := func(m, key string) []asked { return []asked{{method: m, key: key}, {method: m, key: key}} }
	nobody := httpkey.Options{Required: func(*http.Request) bool { return false }}
	strict := httpkey.Options{Strict: true}
	named := httpkey.Options{Header: "x-request-key", ReplayHeader: "X-Again"}
	const both = "201 new, 201 new"
	return []conformance{
		{name: "a string", source: draft + " 2.1", ask: values(`"8e03978e-40d5-43e8-bc93-6894a57f9324"`), want: valid, runs: 1},
		{name: "a string of escapes", source: "RFC 8941 3.3.3", ask: values(`"a\"\\"`), want: valid, runs: 1},
		{name: "a bare key", source: stripe, ask: values("KG5LxwFBepaKHyUD"), want: valid, runs: 1},
		{name: "quoted and bare are one", source: ours, ask: then(asked{key: `"k"`}, func(q *asked) { q.key = "k" }), want: "201 new, 201 again", runs: 1},
		{name: "bare where strict", source: draft + " 2.1", options: strict, ask: values("k"), want: invalid},
		{name: "a string where strict", source: draft + " 2.1", options: strict, ask: values(`"k"`), want: valid, runs: 1},
		{name: "no key", source: draft + " 2.7", ask: []asked{{}}, want: missing},
		{name: "no key, PATCH", source: draft + " 2.7", ask: []asked{{method: http.MethodPatch}}, want: missing},
		{name: "no key where none is needed", source: draft + " 2.3", options: nobody, ask: []asked{{}, {}}, want: both, runs: 2},
		{name: "an empty key", source: draft + " 2.1", ask: values(""), want: invalid, check: told("the key is empty")},
		{name: "an empty string", source: draft + " 2.1", ask: values(`""`), want: invalid},
		{name: "an open string", source: "RFC 8941 4.2.5", ask: values(`"k`), want: invalid},
		{name: "a foreign escape", source: "RFC 8941 4.2.5", ask: values(`"\k"`), want: invalid},
		{name: "a string that ends in an escape", source: "RFC 8941 4.2.5", ask: values(`"k\`), want: invalid},
		{name: "what follows a string", source: "RFC 8941 4.2", ask: values(`"k" x`), want: invalid},
		{name: "two keys", source: "RFC 8941 4.2", ask: values("k", "l"), want: invalid, check: told("stands there 2 times")},
		{name: "a key with a space", source: ours, ask: values("a b"), want: invalid},
		{name: "255 characters", source: stripe, ask: values(strings.Repeat("k", 255)), want: valid, runs: 1},
		{name: "256 characters", source: stripe, ask: values(strings.Repeat("k", 256)), want: invalid, check: told("1 to 255 characters, has 256")},
		{name: "GET", source: stripe, ask: method(http.MethodGet, "k"), want: both, runs: 2},
		{name: "HEAD", source: stripe, ask: method(http.MethodHead, "k"), want: both, runs: 2},
		{name: "TRACE", source: rfc + " 9.2.1", ask: method(http.MethodTrace, "k"), want: both, runs: 2},
		{name: "OPTIONS", source: rfc + " 9.2.1", ask: method(http.MethodOptions, "k"), want: both, runs: 2},
		{name: "DELETE", source: ours, ask: method(http.MethodDelete, "k"), want: "201 new, 201 again", runs: 1},
		{name: "DELETE without a key", source: stripe, ask: method(http.MethodDelete, ""), want: both, runs: 2},
		{name: "PUT", source: ours, ask: method(http.MethodPut, "k"), want: "201 new, 201 again", runs: 1},
		{name: "headers of other names", source: ours, options: named, want: both, runs: 1, check: headers("X-Again", "", "true"),
			ask: twice(asked{header: http.Header{"X-Request-Key": {"k"}}})},
		{name: "a problem's form", source: "RFC 9457, " + draft + " 2.7", ask: []asked{{}}, want: missing, check: every(
			headers("Content-Type", "application/problem+json"), headers("Cache-Control", "no-store"), headers("Retry-After", ""),
			bodies(`{"type":"`+httpkey.DefaultTypeBase+httpkey.KeyMissing+`","title":"The request needs the header Idempotency-Key","status":400}`+"\n"))},
		{name: "problems of one's own", source: ours, want: "418 new", ask: []asked{{}}, options: httpkey.Options{
			OnProblem: func(w http.ResponseWriter, _ *http.Request, p *httpkey.Problem) {
				w.WriteHeader(http.StatusTeapot)
				_, _ = io.WriteString(w, p.Type)
			}, TypeBase: "urn:x:"}, check: bodies("urn:x:" + httpkey.KeyMissing)},
	}
}
