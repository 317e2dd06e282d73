package httpkey_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/httpkey"
	"github.com/ackledger/ackledger/ledger/memory"
)

// What is no setting is refused, by its name; each bound itself is taken.
func TestOptions(t *testing.T) {
	t.Parallel()
	r, err := idempotency.New(memory.New(), idempotency.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]httpkey.Options{
		"Options.MaxBody: must be 0 to 1073741824, is -1":         {MaxBody: -1},
		"Options.MaxBody: must be 0 to 1073741824, is 1073741825": {MaxBody: 1<<30 + 1},
		"Options.RetryAfter: must be at least 1s":                 {RetryAfter: time.Second - 1},
		"Options.KeepHeaders: must not have set-cookie":           {KeepHeaders: []string{"Location", "set-cookie"}},
		"Options.KeepHeaders: must not have Date":                 {KeepHeaders: []string{"Date"}},
		"Options.KeepHeaders: must not have Transfer-Encoding":    {KeepHeaders: []string{"Transfer-Encoding"}},
		"": {MaxBody: 1 << 30, RetryAfter: time.Second, KeepHeaders: []string{"Content-Encoding"}},
	} {
		wrap, err := httpkey.New(r, o)
		if want == "" && (err != nil || wrap == nil) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := httpkey.New(nil, httpkey.Options{}); err == nil || !strings.Contains(err.Error(), "the runner must not be nil") {
		t.Errorf("without a runner: %v", err)
	}
}

// A caller and a route are kept as they are, up to 255 bytes: operators look them up by these names.
func TestIdentityInTheLedger(t *testing.T) {
	t.Parallel()
	tenant := strings.Repeat("t", 255)
	h, _ := counted(http.StatusCreated)
	e := serve(t, idempotency.Options{}, httpkey.Options{Caller: func(*http.Request) string { return tenant }}, h, false)
	e.ask(asked{key: "k"})
	list, err := e.runner.Audit(t.Context(), idempotency.Request{Scope: "POST /pay/{id}", Caller: tenant, Key: "k"})
	if err != nil || len(list) != 1 || list[0].Result.Status != http.StatusCreated {
		t.Errorf("%+v, %v", list, err)
	}
}

// A scope is a method and a route, which may have a method and a host, and not what clients make up.
func TestPitfall173_ScopesAreFew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ method, pattern, path, scope string }{
		{"POST", "", "/pay/7%2F8", "POST"}, {"POST", "POST /pay/{id}", "/pay/7", "POST /pay/{id}"},
		{"PUT", "PUT  example.org/pay", "/pay", "PUT example.org/pay"}, {"PAY", "/pay/{id}", "/pay/7", "* /pay/{id}"}, {"PAY", "", "/pay", "*"},
	} {
		h, runs := counted(http.StatusCreated)
		e := serve(t, idempotency.Options{}, httpkey.Options{}, h, false)
		wrap, err := httpkey.New(e.runner, httpkey.Options{})
		if err != nil {
			t.Fatal(err)
		}
		e.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Pattern = c.pattern // as a router does
			wrap(h).ServeHTTP(w, r)
		})
		e.ask(asked{key: "k", method: c.method, path: c.path})
		list, err := e.runner.Audit(t.Context(), idempotency.Request{Scope: c.scope, Key: "k"})
		if err != nil || len(list) != 1 || runs.Load() != 1 {
			t.Errorf("%s of %s: %+v, %v", c.pattern, c.path, list, err)
		}
	}
}

// Whoever takes any key has them with spaces, too, in quotes and bare. What is no string is refused all the same.
func TestKeysOfOnesOwn(t *testing.T) {
	t.Parallel()
	h, runs := counted(http.StatusCreated)
	anyKey := idempotency.Options{CheckKey: func(string) error { return nil }}
	e := serve(t, anyKey, httpkey.Options{}, h, false)
	for n, key := range []string{`" ~"`, `" ~"`, "a b", `"a\"\\"`, `a"\`} {
		a := e.ask(asked{header: http.Header{"Idempotency-Key": {key}}})
		if a.status != http.StatusCreated || a.replayed() != (n == 1 || n == 4) {
			t.Errorf("%s: %+v", key, a)
		}
	}
	strict := serve(t, anyKey, httpkey.Options{Strict: true}, h, false)
	for said, keys := range map[string][]string{
		"must end with its quote, and not be empty": {`""`, `"k"x`, `"k";a=1`}, "must end with a quote": {`"k`, `"k\"`},
		"byte 2 is not": {`"k\n"`, "\"k\xc3\xa9\"", `"k\`}, "must be in quotes": {"k", ""},
	} {
		for _, key := range keys {
			a := strict.ask(asked{header: http.Header{"Idempotency-Key": {key}}})
			if a.status != http.StatusBadRequest || a.problem() != httpkey.KeyInvalid || !strings.Contains(a.body, said) {
				t.Errorf("%s: %+v, want %s", key, a, said)
			}
		}
	}
	if a := e.ask(asked{header: http.Header{"Idempotency-Key": {"k", "k"}}}); a.problem() != httpkey.KeyInvalid || !strings.Contains(a.body, "stands there 2 times") {
		t.Errorf("two: %+v", a)
	}
	if a := e.ask(asked{header: http.Header{"Idempotency-Key": {""}}}); a.problem() != httpkey.KeyInvalid || !strings.Contains(a.body, "the key is empty") {
		t.Errorf("an empty one: %+v", a)
	}
	if runs.Load() != 3 {
		t.Errorf("%d runs", runs.Load())
	}
}
