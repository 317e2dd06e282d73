package flow

import (
	"time"

	"github.com/ackledger/ackledger/internal/backoff"
	"github.com/ackledger/ackledger/ledger"
)

// Claim is one call of the ledger that claims: items, or ranges. Its arrays are used again.
type Claim struct {
	Session *Session
	Items   []*Item
	Ranges  []*Range
	n       int
}

// Offer takes an item in hand.
func (f *Flow) Offer(now time.Duration, it *Item) {
	order, key := it.logs()
	f.expand(order) // what is in hand of its logs are items from then on
	f.expand(key)
	f.enlist(it)
	f.lastRanged = it.Ranged
	f.meets(now, it.Key.Scope)
	f.s.add(it)
	switch {
	case it.Skip:
		f.finish(it, Verdict{Ack: true})
	case f.draining:
		f.finish(it, Verdict{})
	}
}

// NextClaim takes what is to be claimed next; false: nothing is, now. It is to be followed by ClaimOver.
func (f *Flow) NextClaim(now time.Duration, c *Claim) bool {
	c.Items, c.Ranges = c.Items[:0], c.Ranges[:0]
	for !f.closed {
		n, headsOnly := f.claimable(now)
		records, doubts := f.claimableRanges(now), f.doubts()
		switch {
		case n == 0 && records == 0 && !doubts:
			return false
		case records > 0 && !doubts && (n == 0 || !f.turns.claim.items()):
			c.Ranges = f.s.takeRanges(records, c.Ranges)
		default:
			if c.Items = f.s.takeDoubts(ClaimBatch, c.Items); len(c.Items) == 0 {
				c.Items = f.s.takeClaims(n, headsOnly, c.Items)
			}
		}
		c.Session, c.n = f.sess, len(c.Items)
		for _, r := range c.Ranges {
			c.n += r.Len
		}
		f.claiming += c.n
		if c.n > 0 {
			return true
		}
	}
	return false
}

// ClaimOver notes that a claim is not under way any more.
func (f *Flow) ClaimOver(c *Claim) { f.claiming -= c.n }

// doubts says whether there are items to be asked for that may be ours. That waits neither for a handler nor for the end of a
// pause.
func (f *Flow) doubts() bool {
	return f.s.doubtQ.len() > 0 && f.sess != nil && f.up && !f.draining
}

// claimable says how many items may be claimed now, and whether only such as can start at once. Claims run ahead of the
// handlers in large batches: the next is asked for when half of what may be ahead is used up. What was claimed ahead may wait
// behind the heads of its sequences: it never keeps a free handler from another sequence's head.
func (f *Flow) claimable(now time.Duration) (n int, headsOnly bool) {
	if !f.MayStart() || f.s.claimQ.len() == 0 {
		return 0, false
	}
	free := max(min(f.freeSlots(), ClaimBatch), 0)
	if f.cfg.Park {
		return free, true
	}
	floor := min(2*f.Concurrency()*f.cfg.BatchSize, f.cfg.ClaimAhead)
	limit := f.pace.update(now, floor, f.cfg.ClaimAhead)
	if room := limit - (f.s.ahead - f.s.ranged); room > 0 && room >= min(limit/2, ClaimBatch) {
		if n = min(room, ClaimBatch); f.worthwhile(min(n, f.s.claimQ.len()), f.claiming) {
			return n, false
		}
	}
	return max(free-f.s.readyQ.len(), 0), true
}

// Unanswered notes that items may be ours: the answer of their claim was lost.
func (f *Flow) Unanswered(c *Claim) {
	for _, it := range c.Items {
		it.sess, it.maybe = c.Session, true
	}
}

// Unclaimed gives back items whose claim did not come about, as far as is known.
func (f *Flow) Unclaimed(c *Claim) {
	for _, it := range c.Items {
		if it.phase == claiming {
			it.maybe = it.maybe && !c.Session.lost
			f.giveBack(it)
		}
	}
}

// Over says whether no answer of a claim need come any more: its session is lost, or all is over.
func (f *Flow) Over(s *Session) bool { return s.lost || f.closed }

// Claimed does what the claim table says, item by item. What an answer says is to be archived has its archive in archives; nil
// where there are none.
func (f *Flow) Claimed(now time.Duration, c *Claim, answers []ledger.Claim, archives []*ledger.Archive) {
	known := Counted{Scope: c.Items[0].Key.Scope}
	for i, it := range c.Items {
		a := &answers[i]
		if it.Key.Scope != known.Scope {
			f.count(known)
			known = Counted{Scope: it.Key.Scope}
		}
		known.met(it, a)
		it.sess, it.ticket, it.maybe = c.Session, a.Ticket, it.maybe && unexplained(a)
		it.attempt, it.generation, it.crashes = int32(a.Attempt), int32(a.Generation), int32(a.Crashes)
		var archive *ledger.Archive
		if archives != nil {
			archive = archives[i]
		}
		f.claimed(now, it, a, archive)
	}
	f.count(known)
}

func (f *Flow) claimed(now time.Duration, it *Item, a *ledger.Claim, archive *ledger.Archive) {
	switch {
	case a.Err != nil:
		f.wait(now, it, maxAsk)
	case a.Answer == ledger.Run && it.Invalid != nil && f.keeps(it):
		f.fail(now, it, archive)
	case a.Answer == ledger.Run:
		f.ours(it)
	case a.Answer == ledger.Done, a.Answer == ledger.InCare, a.Answer == ledger.Mismatch && f.cfg.Told:
		f.finish(it, Verdict{Ack: true})
	case a.Answer == ledger.Mismatch && f.heldBack(it): // it is nobody's; what is spent is ours, and would forget why
		f.giveBack(it)
	case a.Answer == ledger.Spent, a.Answer == ledger.Mismatch:
		it.unclear = a.Uncertain
		f.fail(now, it, archive)
	case a.Suspect:
		f.s.setPhase(it, queued)
		it.solo = true
		f.giveBack(it)
	default:
		it.asks++
		wait := a.Wait
		if most := f.cfg.AskMax; most > 0 {
			if soon := (backoff.Policy{Base: minAsk, Max: most}).Ceiling(int(it.asks)); wait <= 0 || wait > soon {
				wait = soon
			}
		}
		f.wait(now, it, AskAgain(wait, int(it.asks), f.chance.draw()))
	}
}

// NeedsArchive says whether an answer may end in a failure that is archived.
func NeedsArchive(it *Item, a *ledger.Claim) bool {
	return a.Err == nil && (a.Answer == ledger.Spent || a.Answer == ledger.Mismatch || a.Answer == ledger.Run && it.Invalid != nil)
}

// fail dead-letters a message that is not run.
func (f *Flow) fail(now time.Duration, it *Item, dead *ledger.Archive) {
	it.asks = 0
	f.settle(now, it, &ledger.Settlement{Kind: ledger.Fail, Dead: dead})
}

// ClaimedRanges does what the answers say. It returns how many messages are ours.
func (f *Flow) ClaimedRanges(now time.Duration, c *Claim, tokens []uint64) (messages int64) {
	for i, r := range c.Ranges {
		r.sess, r.token = c.Session, tokens[i]
		switch {
		case !r.whole: // it was expanded since
			f.claimedParts(r)
		case r.token == 0:
			f.s.logs[r.log].claiming--
			r.phase = queued
			f.s.aheadOfRanges(-r.Len)
			f.expand(r.log)
		default:
			f.s.logs[r.log].claiming--
			r.phase = claimed
			if f.MayStart() && !c.Session.lost {
				f.s.mayRun(r.log)
			} else {
				f.expand(r.log)
			}
		}
		if r.token != 0 {
			messages += r.Claim.Messages()
		}
	}
	return messages
}

// claimedParts tells the items of a range that it is ours, or that each is to be asked for.
func (f *Flow) claimedParts(r *Range) {
	for _, it := range r.items {
		if it.phase != claiming {
			continue
		}
		if r.token == 0 {
			f.giveBack(it)
			continue
		}
		r.ready(it)
		f.ours(it)
	}
}

// AskEach makes items of ranges whose claim was not answered: each is asked for by itself.
func (f *Flow) AskEach(now time.Duration, ranges []*Range) (items []*Item) {
	for _, r := range ranges {
		f.expand(r.log)
		for _, it := range r.items {
			if it.phase == claiming {
				items = append(items, it)
			}
		}
	}
	return items
}

// rangesAhead is how many times as far ahead of the handlers records of ranges are claimed: a claim of many costs the ledger what
// one of few does, and each is waited for.
const rangesAhead = 4

// claimableRanges says how many records of ranges may be claimed now; zero: none.
func (f *Flow) claimableRanges(now time.Duration) int {
	if f.s.rangeQ.len() == 0 || !f.MayStart() {
		return 0
	}
	n := f.s.claimableRanges()
	if n == 0 {
		return 0
	}
	most := rangesAhead * f.cfg.ClaimAhead
	limit := f.pace.update(now, min(2*f.Concurrency()*f.cfg.BatchSize, most), most)
	large := f.s.ahead < f.cfg.ClaimAhead/2 || n >= ClaimBatch
	if room := limit - f.s.ahead; large && room > 0 && room >= min(limit/2, ClaimBatch) && f.worthwhile(min(room, n), f.claiming) {
		return room
	}
	if f.claiming == 0 && f.s.readyQ.len()+f.s.rangeReady.len() == 0 && f.freeSlots() > 0 {
		return 1
	}
	return 0
}
