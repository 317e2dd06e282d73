package ledgertest

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// statsFirst: of a known number of messages each counts as a first claim once, and each duplicate as one, whatever else happens
// to them: busy waits, retries, messages given back, take-overs, redrives, claims that are asked again.
func statsFirst(e *env) {
	a, b := e.owner(), e.owner()
	all := e.entries(10)
	first := func(c ledger.Claim, want bool) ledger.Claim {
		e.Helper()
		if c.First != want || c.Held {
			e.Errorf("%+v, want First %t", c, want)
		}
		return c
	}
	claims := e.claimAll(a, all)
	for i := range claims {
		first(claims[i], true)
		if claims[i].Ranged != e.Ranged {
			e.Errorf("%+v, want Ranged %t", claims[i], e.Ranged)
		}
	}
	for range 2 {
		for _, c := range e.claimAll(b, all) {
			if c.Answer != ledger.Busy || !c.Held || c.First {
				e.Errorf("a live owner's: %+v", c)
			}
		}
	}
	for i := range 5 {
		e.holds(a, succeed(claims[i]))
	}
	e.holds(a, failedAttempt(claims[5], "a retry"))
	e.holds(a, release(claims[6]))
	e.holds(a, fail(claims[8], all[8]))
	later := release(claims[9])
	later.After = longLease
	e.holds(a, later)
	for _, i := range []int{0, 1, 2, 3, 4, 8} { // redelivered
		e.want(b, all[i], ledger.Done)
	}
	first(e.want(b, all[5], ledger.Run), false)
	if c := e.want(b, all[6], ledger.Run); c.First != e.Ranged { // in a range it is as if never claimed
		e.Errorf("given back: %+v", c)
	}
	if c := e.want(b, all[9], ledger.Busy); c.Held || c.Wait <= 0 {
		e.Errorf("not due: %+v", c)
	}
	e.declare(a)
	if c := first(e.want(b, all[7], ledger.Run), false); !c.TookOver {
		e.Errorf("taken over: %+v", c)
	}
	redrive := all[8]
	redrive.Delivery = []byte("8#2")
	first(e.want(b, redrive, ledger.Run), false)
	if s := e.stats().Answered; s.First != 10 || s.Duplicates != 6 || s.DedupRate() != 6.0/16 {
		e.Errorf("%+v, a rate of %v; want 10 first claims and 6 duplicates", s, s.DedupRate())
	}
	first(e.want(b, all[7], ledger.Run), false) // that take-over again, as if its answer was lost
	next := e.entry("next")
	first(e.want(b, next, ledger.Run), true)
	again := first(e.want(b, next, ledger.Run), true)
	e.holds(b, failedAttempt(again, "a retry"))
	first(e.want(b, next, ledger.Run), false)
}

// statsDeliveries: what workers count of deliveries adds up by scope, whoever counts it, and when they do so at once.
func statsDeliveries(e *env) {
	c, ok := e.Ledger.(ledger.DeliveryCounter)
	if !ok {
		e.Fatal("the ledger is no ledger.DeliveryCounter")
	}
	add := func(more ...ledger.Deliveries) {
		e.Helper()
		if err := c.CountDeliveries(e.ctx, more); err != nil {
			e.Errorf("count %+v: %v", more, err)
		}
	}
	small, large := e.scope+" small", e.scope+" large"
	want := func(step string, want map[string]ledger.Deliveries) {
		e.Helper()
		got, before := map[string]ledger.Deliveries{}, int64(math.MaxInt64)
		for _, d := range e.stats().Deliveries {
			if d.Misses+d.Hits > before {
				e.Errorf("%s: %+v stands behind a smaller one", step, d)
			}
			before = d.Misses + d.Hits
			if d.Scope != small && d.Scope != large {
				continue
			}
			if since := time.Since(d.Since); since < -patience || since > patience {
				e.Errorf("%s: counted since %s", step, d.Since)
			}
			d.Since = time.Time{}
			got[d.Scope] = d
		}
		if !maps.Equal(got, want) {
			e.Errorf("%s: %+v, want %+v", step, got, want)
		}
	}
	add()
	want("before", map[string]ledger.Deliveries{})
	add(ledger.Deliveries{Scope: small, Misses: 3, Hits: 1, Timeouts: 2})
	want("first", map[string]ledger.Deliveries{small: {Scope: small, Misses: 3, Hits: 1, Timeouts: 2}})
	add(ledger.Deliveries{Scope: small, Misses: -1}) // one was given back without a trace
	var wg sync.WaitGroup
	for i := range 20 { // each in another order
		wg.Go(func() {
			both := []ledger.Deliveries{{Scope: small, Hits: 1}, {Scope: large, Misses: 1000, Hits: 250, Timeouts: 5}}
			if i%2 == 0 {
				slices.Reverse(both)
			}
			add(both...)
		})
	}
	wg.Wait()
	sums := map[string]ledger.Deliveries{
		small: {Scope: small, Misses: 2, Hits: 21, Timeouts: 2}, large: {Scope: large, Misses: 20_000, Hits: 5000, Timeouts: 100},
	}
	want("together", sums)
	l := sums[large]
	if r := l.DedupRate(); r != 0.2 {
		e.Errorf("a rate of %v, want 0.2", r)
	}
	for _, scope := range []string{"", strings.Repeat("s", ledger.MaxScope+1)} {
		var invalid *ledger.InvalidError
		if err := c.CountDeliveries(e.ctx, []ledger.Deliveries{{Scope: large, Hits: 1}, {Scope: scope, Hits: 1}}); !errors.As(err, &invalid) {
			e.Errorf("a scope of %d bytes: %v", len(scope), err)
		}
	}
	over, cancel := context.WithCancel(e.ctx)
	cancel()
	if err := c.CountDeliveries(over, []ledger.Deliveries{{Scope: large, Hits: 1}}); err == nil {
		e.Error("counted after the end of its context")
	}
	want("refused", sums)
}
