package ledgertest

import "github.com/ackledger/ackledger/ledger"

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
