package flow

import (
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// mayProbe says whether a message is to be tried now.
func (f *Flow) mayProbe(now time.Duration) bool {
	return f.breaker.open && f.probing.item == nil && f.MayWork() && f.breaker.mayTry(now)
}

// Hungry says whether there is nothing in hand that could be tried, though one should be.
func (f *Flow) Hungry(now time.Duration) bool {
	return f.mayProbe(now) && f.s.claimQ.len()+f.s.suspectQ.len() == 0
}

// judge counts a message that came to its end.
func (f *Flow) judge(now time.Duration, it *Item, good bool) {
	if good {
		f.well++
	}
	switch {
	case f.probing.item == it && good:
		f.probing.spoken = probeGood
	case f.probing.item == it:
		f.probing.spoken = probeBad
	case good:
		f.breaker.handled(now, 1, 0)
	default:
		f.failedForGood(now)
	}
}

// failedForGood counts a failure, and opens the breaker if it is one too many.
func (f *Flow) failedForGood(now time.Duration) {
	b := &f.breaker
	if !b.handled(now, 0, 1) {
		return
	}
	f.tripped, f.probing.since = true, now
	f.tellNews(News{What: BreakerOpened, Failed: b.sum.bad, All: b.sum.good + b.sum.bad, After: b.pause})
	f.lookAfter(now, b.pause)
}

// lookAfter has what waits for the end of a pause look again.
func (f *Flow) lookAfter(now, pause time.Duration) {
	f.timers.add(now+pause, func(time.Duration) { f.cmd.Improved = true })
}

// BreakerOpen says whether the breaker is open, and since when.
func (f *Flow) BreakerOpen() (open bool, since time.Duration) { return f.breaker.open, f.probing.since }

// meets takes in the scope of what is offered.
func (f *Flow) meets(now time.Duration, scope string) {
	if f.order.meet(scope) {
		f.stopByOrder(now)
	}
	if !f.budget.meet(scope) {
		return
	}
	f.budgetAt, f.tripped = now, f.tripped || f.budget.stops
	f.cmd.Look = true
}

// Ordered takes in the pauses that hold, sorted by scope, and stops the worker or lets it go on. The slice is not changed.
func (f *Flow) Ordered(now time.Duration, hold []ledger.Pause) {
	stopped, inHand := f.order.stops, map[string]bool(nil)
	if len(hold) > 0 {
		inHand = f.scopesInHand()
	}
	switch stops := f.order.said(hold, inHand); {
	case stops && !stopped:
		f.stopByOrder(now)
	case stopped && !stops:
		f.cmd.Improved = true
		f.tellNews(News{What: WentOn, After: now - f.orderAt})
	}
}

func (f *Flow) stopByOrder(now time.Duration) {
	f.orderAt, f.tripped = now, true
	f.tellNews(News{What: Stopped, Pause: f.order.by})
}

// Order is the pause by which operators stop the worker, and since when they do.
func (f *Flow) Order() (by ledger.Pause, stops bool, since time.Duration) {
	return f.order.by, f.order.stops, f.orderAt
}

// Paused says whether Pause was called, and Resume was not.
func (f *Flow) Paused() bool { return f.paused }

// WentWell is how many messages' handlers ended well.
func (f *Flow) WentWell() int64 { return f.well }

// spends counts what failed and is to be archived.
func (f *Flow) spends(now time.Duration, it *Item, dead *ledger.Archive) {
	if f.budget.limit == 0 {
		return
	}
	weight := dead.Weight()
	it.more().spent = weight
	f.budget.spend(dead.Key.Scope, weight)
	f.stopIfSpent(now)
}

// stopIfSpent stops the worker, and says so, if a scope is known to have no room.
func (f *Flow) stopIfSpent(now time.Duration) {
	b := &f.budget
	if f.budgetTold || !b.stops || !b.scopes[b.over].known {
		return
	}
	f.budgetAt, f.tripped, f.budgetTold = now, true, true
	f.tellNews(News{What: BudgetSpent, Scope: b.over, Bytes: b.scopes[b.over].bytes(), Limit: b.limit})
}

// Weigh begins a round of questions for how much is archived: it returns the scopes.
func (f *Flow) Weigh() []string {
	if f.budget.stops && f.budget.keep(f.scopesInHand()) {
		f.budgetTold, f.cmd.Improved = false, true
	}
	return f.budget.names()
}

// scopesInHand are those of all that is in hand.
func (f *Flow) scopesInHand() map[string]bool {
	scopes := map[string]bool{}
	for it := f.all; it != nil; it = it.allNext {
		scopes[it.Key.Scope] = true
	}
	for _, l := range f.s.logs {
		for _, r := range l.ranges {
			scopes[r.Claim.First.Key.Scope] = true
		}
	}
	return scopes
}

// Weighing notes that the ledger is asked now how much of a scope is archived.
func (f *Flow) Weighing(scope string) { f.budget.ask(scope, f.onItsWay(scope)) }

// onItsWay is how much of a scope has failed and is not known to be archived: it is published, sealed, settled or kept. It may
// be for as long as a target or a cipher is slow.
func (f *Flow) onItsWay(scope string) (bytes int64) {
	for it := f.all; it != nil; it = it.allNext {
		if it.phase == settling && it.Key.Scope == scope {
			bytes += it.rest().spent
		}
	}
	return bytes
}

// Weighed takes the ledger's answer, and stops the worker or lets it go on.
func (f *Flow) Weighed(now time.Duration, scope string, bytes int64) {
	stopped := f.budget.stops
	f.budget.answered(scope, bytes)
	f.stopIfSpent(now)
	if f.budget.stops || !stopped {
		return
	}
	f.cmd.Improved = true
	if f.budgetTold {
		f.budgetTold = false
		f.tellNews(News{What: BudgetHasRoom, After: now - f.budgetAt})
	}
}

// BudgetStops says whether a scope has no room in its budget, or it is not known yet, and since when.
func (f *Flow) BudgetStops() (stops bool, scope string, bytes int64, known bool, since time.Duration) {
	if !f.budget.stops {
		return false, "", 0, false, 0
	}
	a := f.budget.scopes[f.budget.over]
	return true, f.budget.over, a.bytes(), a.known, f.budgetAt
}

// Archived says what each scope has in the archive, as far as that is known; nothing without a budget.
func (f *Flow) Archived() map[string]int64 {
	known := map[string]int64{}
	for scope, a := range f.budget.scopes {
		if a.known {
			known[scope] = a.bytes()
		}
	}
	return known
}

// worthwhile says whether to send a batch beside one that is under way: not one that is much smaller, which costs the ledger
// nearly as much. For messages in ranges a call costs the same however large it is: the next gathers until it is as large.
func (f *Flow) worthwhile(batch, underway int) bool {
	if f.lastRanged {
		return batch >= underway
	}
	return 4*batch >= underway
}
