package flow

import (
	"time"

	"github.com/ackledger/ackledger/internal/backoff"
	"github.com/ackledger/ackledger/ledger"
)

// enlist puts an item in the list of all.
func (f *Flow) enlist(it *Item) {
	f.number++
	it.number = f.number
	it.allNext = f.all
	if f.all != nil {
		f.all.allPrev = it
	}
	f.all = it
}

// items visits all in hand. The one that is visited may be let go of.
func (f *Flow) items(visit func(*Item) bool) {
	for it := f.all; it != nil; {
		next := it.allNext
		if !visit(it) {
			return
		}
		it = next
	}
}

// finish tells the worker, if it does not know yet, and lets go of the item.
func (f *Flow) finish(it *Item, v Verdict) {
	if it.phase == finished {
		return
	}
	f.traced(it)
	if it.told { // there is room, and nothing to tell
		f.cmd.Improved = true
	}
	f.tell(it, v)
	f.forget(it)
	f.s.remove(it)
	if it.allPrev != nil {
		it.allPrev.allNext = it.allNext
	} else {
		f.all = it.allNext
	}
	if it.allNext != nil {
		it.allNext.allPrev = it.allPrev
	}
	it.allPrev, it.allNext = nil, nil
}

// tell gives the broker its message back, once. The flow may go on with it, as far as the ledger is concerned.
func (f *Flow) tell(it *Item, v Verdict) {
	if it.told {
		return
	}
	it.told = true
	if it.behind && !v.Ack {
		f.count(Counted{Scope: it.Key.Scope, Timeouts: 1})
	}
	f.out = append(f.out, Finished{Item: it, Verdict: v})
}

// MayStart says whether handlers may start: fail closed.
func (f *Flow) MayStart() bool { return f.MayWork() && !f.breaker.open }

// MayWork says whether it is only for the breaker whether handlers may start.
func (f *Flow) MayWork() bool { return f.able() && !f.order.stops }

func (f *Flow) able() bool {
	return f.sess != nil && f.up && !f.paused && !f.draining && !f.closed && !f.budget.stops
}

// MayBegin says whether a message that was dispatched some time ago may begin still; nil: one of a whole range.
func (f *Flow) MayBegin(it *Item) bool {
	if it == nil {
		return f.MayStart()
	}
	return f.able() && !f.heldBack(it)
}

// Well says whether handlers may start, or would if operators had not paused the worker.
func (f *Flow) Well() bool { return f.able() && !f.breaker.open }

// Draining says whether nothing new begins any more.
func (f *Flow) Draining() bool { return f.draining }

// forget ends the keeping of an item's settlement.
func (f *Flow) forget(it *Item) {
	if k := f.kept[it]; k != nil {
		f.timers.remove(k.timer)
		delete(f.kept, it)
	}
}

// met counts the ledger's answer to an item, and notes in the item what later ones go by. An answer that was lost counts with
// the one that follows it. The first claim of a message in a range counts once it has left a trace there, or can no longer be
// given back without one: whoever claims it next is told of a first claim again if it is, also after this worker was killed.
func (c *Counted) met(it *Item, a *ledger.Claim) {
	switch a.Answer {
	case ledger.Run:
		switch {
		case a.First && a.Ranged:
			it.fresh = true
		case a.First && !it.met:
			c.Misses++
		}
		it.met = true
	case ledger.Done:
		if !it.met {
			c.Hits++
		}
	}
	it.ranged = a.Ranged
	it.behind = a.Held || it.behind && unexplained(a)
}

// traced counts the first claim of an item in a range, which is not given back without a trace any more.
func (f *Flow) traced(it *Item) {
	if it.fresh {
		it.fresh = false
		f.countFirst(it.Key.Scope, 1)
	}
}

// countFirst counts first claims of a scope, in sum with those before.
func (f *Flow) countFirst(scope string, n int64) {
	if f.scope != scope {
		f.countFirsts()
		f.scope = scope
	}
	f.firsts += n
}

func (f *Flow) countFirsts() {
	if n := f.firsts; n > 0 {
		f.firsts = 0
		f.count(Counted{Scope: f.scope, Misses: n})
	}
}

// count counts deliveries of a scope.
func (f *Flow) count(c Counted) {
	if c.Misses != 0 || c.Hits != 0 || c.Timeouts != 0 {
		f.cmd.Counted = append(f.cmd.Counted, c)
	}
}

// forgotten is an item that was given back, or may have been. In a range that leaves no trace: its next claim is its first,
// whoever makes it.
func (it *Item) forgotten() {
	if it.ranged {
		it.met, it.fresh = false, false
	}
}

// unexplained says whether a message is busy for no known reason, or its claim was refused: its row may be locked by our own claim or
// InTx, whose COMMIT hangs, so what may be ours may be so still.
func unexplained(a *ledger.Claim) bool {
	return a.Answer == ledger.Busy && a.Wait <= 0 && !a.Suspect
}

// giveBack makes an item claimable again. One that the broker has back is let go of instead, unless it may be ours: then the
// ledger is asked until it answers.
func (f *Flow) giveBack(it *Item) {
	if f.draining || it.dropped && !it.maybe {
		f.finish(it, Verdict{})
		return
	}
	if it.dropped {
		f.tell(it, Verdict{Held: true})
	}
	f.s.requeue(it)
}

// wait holds an item that is not ours, unless the broker has it back. One that may be ours is held even then.
func (f *Flow) wait(now time.Duration, it *Item, rest time.Duration) {
	if (it.dropped || it.NoWait || it.Parked) && !it.maybe || f.draining {
		f.finish(it, Verdict{Again: max(rest, 0)})
		return
	}
	if it.dropped {
		f.tell(it, Verdict{Held: true})
	}
	f.s.hold(it, now+rest)
}

// AskAgain says in how long to ask for a busy message again: when the reason ends, as far as it is known, else at doubling
// intervals. It is pure; asks counts the answers in a row, draw is in [0, 1).
func AskAgain(wait time.Duration, asks int, draw float64) time.Duration {
	if wait <= 0 {
		wait = backoff.Policy{Base: minAsk, Max: 2 * time.Second}.Ceiling(asks)
	}
	wait = min(max(wait, minAsk), maxAsk)
	return wait + time.Duration(draw*float64(wait)/10)
}

// Bounds of how often a busy message is asked for again. The longest wait is short against a lease, so that a message whose
// owner died is taken over soon after; the shortest keeps a locked row from being hammered.
const (
	minAsk = 50 * time.Millisecond
	maxAsk = 10 * time.Second
)

// release gives back what was claimed and not started, uncounted and due at once.
func (f *Flow) release(it *Item) {
	f.s.setPhase(it, settling)
	f.settleQ.push(Settlement{Item: it, Session: it.sess, Kind: ledger.Release})
}

// succeed settles what went well; more may be nil.
func (f *Flow) succeed(it *Item, more *ledger.Settlement) {
	if !it.isHead() { // of a range that was expanded: it waits for those before it, or goes with them (takeEarly)
		it.more().early = &early{more}
		return
	}
	f.s.setPhase(it, settling)
	f.settleQ.push(Settlement{Item: it, Session: it.sess, Kind: ledger.Succeed, More: more})
}

// keeps says whether an item that was claimed to run stays ours.
func (f *Flow) keeps(it *Item) bool {
	parked := f.cfg.Park && !it.solo && f.paused
	return !it.sess.lost && !it.dropped && !f.draining && !parked && !f.heldBack(it)
}

// ours is an item that was claimed to run.
func (f *Flow) ours(it *Item) {
	it.asks = 0
	switch {
	case it.sess.lost:
		f.giveBack(it)
	case !f.keeps(it):
		f.release(it)
	case it.solo: // it is dispatched by name
		f.s.setPhase(it, claimed)
	default:
		f.s.won(it)
	}
}

// halted says whether nothing may run, not even to try it.
func (f *Flow) halted() bool { return f.budget.stops || f.order.stops }

// heldBack says whether an item may not run because the budget is spent, operators have paused the worker, or the breaker is open and
// another one is tried, or none.
func (f *Flow) heldBack(it *Item) bool {
	return f.halted() || f.breaker.open && f.probing.item != it
}
