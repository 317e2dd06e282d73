package ledgertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

func (e *env) keepPast(scope string, d time.Duration) error {
	e.Helper()
	k, ok := e.Ledger.(ledger.PastKeeper)
	if !ok {
		e.Fatalf("%T is no ledger.PastKeeper", e.Ledger)
	}
	return k.KeepPast(e.ctx, scope, d)
}

// keepsPast says how long the past of this case's scope is kept.
func (e *env) keepsPast(d time.Duration) {
	e.Helper()
	if err := e.keepPast(e.scope, d); err != nil {
		e.Fatalf("keep the past for %s: %v", d, err)
	}
}

// earlier is what is kept of a key, without its times; they are checked.
func (e *env) earlier(key ledger.Key, keep time.Duration) (out []string) {
	e.Helper()
	rec, err := e.Get(e.ctx, key)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		e.Fatalf("get: %v", err)
	}
	for _, p := range rec.Past {
		if p.Until.Sub(p.Expiry) != keep || !p.At.Before(p.Expiry) || time.Since(p.At) > patience || p.Bytes != 0 {
			e.Errorf("the past of %v: %+v", key, p)
		}
		if p.Token == 0 || p.Token != uint64(p.Attempts)+1 && !e.Ranged { // here each claim but the first follows a failed attempt
			e.Errorf("the past of %v has token %d after %d attempts", key, p.Token, p.Attempts)
		}
		out = append(out, fmt.Sprintf("%v %s attempts %d", p.State, showBytes(p.Result), p.Attempts))
	}
	return out
}

func (e *env) wantPast(key ledger.Key, keep time.Duration, want ...string) {
	e.Helper()
	if got := e.earlier(key, keep); fmt.Sprint(got) != fmt.Sprint(want) {
		e.Fatalf("the past of %v is\n%q, want\n%q", key, got, want)
	}
}

// rowsGo sweeps until the messages' rows have gone.
func (e *env) rowsGo(messages ...ledger.Entry) {
	e.Helper()
	e.eventually("the rows go", func() bool {
		e.sweep(keep)
		for _, m := range messages {
			if !e.gone(m) {
				return false
			}
		}
		return true
	})
}

// with is a settlement with a result.
func with(s ledger.Settlement, result string) ledger.Settlement {
	s.Result = []byte(result)
	return s
}

// pastOutlives: what messages ended with can be looked up when their rows have gone, and then no claim is answered from it.
func pastOutlives(e *env) {
	e.keepsPast(time.Hour)
	o := e.owner()
	good, bad, bare, empty := e.short("good"), e.short("bad"), e.short("bare"), e.short("empty")
	claims := e.allRun(o, []ledger.Entry{good, bad, bare, empty})
	e.holds(o, with(succeed(claims[0]), "first"))
	e.holds(o, with(fail(claims[1], bad), "error"))
	e.holds(o, succeed(claims[2]))
	e.holds(o, with(succeed(claims[3]), ""))
	e.rowsGo(good, bad, bare, empty)
	e.wantPast(good.Key, time.Hour, `succeeded "first" attempts 0`)
	e.wantPast(bad.Key, time.Hour, `failed "error" attempts 0`)
	e.wantPast(bare.Key, time.Hour)
	e.wantPast(empty.Key, time.Hour, `succeeded "" attempts 0`)
	found, err := e.op().Find(e.ctx, e.scope, good.Key.ID)
	if err != nil || len(found) != 1 || found[0].State != 0 || found[0].Key != good.Key.Sum() || len(found[0].Past) != 1 {
		e.Fatalf("found: %+v, %v", found, err)
	}
	rec, err := e.Get(ledger.WithoutBodies(e.ctx), good.Key)
	if !errors.Is(err, ledger.ErrNotFound) || len(rec.Past) != 1 || rec.Past[0].Result != nil || rec.Past[0].Bytes != len("first") {
		e.Fatalf("without bodies: %+v, %v", rec.Past, err)
	}

	c := e.want(o, good, ledger.Run)
	if c.Attempt != 1 || !c.First || c.Outcome.Result != nil {
		e.Fatalf("a new run: %+v", c)
	}
	e.wantPast(good.Key, time.Hour, `succeeded "first" attempts 0`)
	e.holds(o, failedAttempt(c, "once"))
	e.holds(o, with(succeed(e.want(o, good, ledger.Run)), "second"))
	if got := e.claim(o, good); got.Answer == ledger.Done && string(got.Outcome.Result) != "second" {
		e.Fatalf("a duplicate of the new run: %+v", got)
	}
	e.rowsGo(good)
	e.wantPast(good.Key, time.Hour, `succeeded "second" attempts 1`, `succeeded "first" attempts 0`)
}

// pastOfScopes: each scope has its own, or none; what was said last holds for what goes then.
func pastOfScopes(e *env) {
	o := e.owner()
	other := e.short("other")
	other.Key.Scope += " other"
	run := func(messages ...ledger.Entry) { // in one call: memory drops what has expired at each claim
		e.Helper()
		for _, c := range e.allRun(o, messages) {
			e.holds(o, with(succeed(c), "result"))
		}
	}
	first := e.short("first")
	run(first, other) // before anything is said of their scopes
	e.keepsPast(time.Minute)
	e.keepsPast(time.Hour)
	e.rowsGo(first, other)
	e.wantPast(first.Key, time.Hour, `succeeded "result" attempts 0`)
	e.wantPast(other.Key, time.Hour)

	e.keepsPast(0)
	second := e.short("second")
	run(second)
	e.rowsGo(second)
	e.wantPast(second.Key, time.Hour)
	e.wantPast(first.Key, time.Hour, `succeeded "result" attempts 0`)

	e.invalid(e.keepPast(string(make([]byte, ledger.MaxScope+1)), time.Hour), "scope")
	for _, d := range []time.Duration{-1, time.Second - 1, ledger.MaxWindow + 1} {
		e.invalid(e.keepPast(e.scope, d), "keep")
	}
}

// pastExpiry: what is kept goes at its own time, all of it in transactions of a bounded size; the rest stays.
func pastExpiry(e *env) {
	const many = 250
	e.keepsPast(time.Hour)
	o := e.owner()
	stays := e.short("stays")
	e.holds(o, with(succeed(e.want(o, stays, ledger.Run)), "result"))
	e.rowsGo(stays)
	e.keepsPast(time.Second)
	entries := make([]ledger.Entry, many)
	for i := range entries {
		entries[i] = e.short(number(i))
	}
	settlements := make([]ledger.Settlement, many)
	for i, c := range e.allRun(o, entries) {
		settlements[i] = with(succeed(c), "result")
	}
	for _, err := range e.settleAll(o, settlements) {
		if err != nil {
			e.Fatal(err)
		}
	}
	var messages, past int64
	e.eventually("all of it goes", func() bool {
		r, err := e.maintainer().Sweep(e.ctx, ledger.MaintainConfig{Batch: 100})
		if err != nil {
			e.Fatalf("sweep: %v", err)
		}
		messages, past = messages+r.Messages, past+r.Past
		if past > messages || r.Removed() != r.Messages+r.Past {
			e.Fatalf("%d messages and %d pasts removed: %+v", messages, past, r)
		}
		return past == many
	})
	e.wantPast(entries[0].Key, time.Second)
	e.wantPast(stays.Key, time.Hour, `succeeded "result" attempts 0`)
}
