package flow

import (
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// settle puts a settlement of an item that is ours on its way.
func (f *Flow) settle(now time.Duration, it *Item, set *ledger.Settlement) {
	f.s.setPhase(it, settling)
	s := Settlement{Item: it, Session: it.sess, Kind: set.Kind, More: set}
	if it.extra != nil {
		it.extra.spent = 0
	}
	if set.Kind == ledger.Fail {
		f.judge(now, it, false)
		f.spends(now, it, set.Dead)
		f.forward(s)
		return
	}
	if set.Kind == ledger.Park && f.cfg.Cipher { // what is left is to seal it
		s.Tried = true
		f.forward(s)
		return
	}
	f.queueUp(s)
}

// NextSettle takes what is to be settled next; false: nothing is, now. It is to be followed by SettleOver.
func (f *Flow) NextSettle(now time.Duration, b *Batch) bool {
	*b = Batch{Items: b.Items[:0], Ranges: b.Ranges[:0]}
	for !f.closed {
		if f.mayPark() {
			return f.nextParks(now, b)
		}
		waiting := f.settleQ.len() + f.sendable()
		if waiting == 0 || !f.worthwhile(waiting, f.settling) {
			return false
		}
		if b.Ranges = f.takeDone(b.Ranges); len(b.Ranges) == 0 {
			b.Items = f.takeSettlements(&f.settleQ, b.Items)
		}
		b.n = len(b.Items)
		for _, r := range b.Ranges {
			b.n += r.Len
		}
		if f.settling += b.n; b.n > 0 {
			return true
		}
	}
	return false
}

// SettleOver notes that a call is not under way any more.
func (f *Flow) SettleOver(now time.Duration, b *Batch) {
	if b.parks {
		f.parksOver(now, b)
	} else {
		f.settling -= b.n
	}
}

// takeSettlements takes settlements of one session, bounded in count and bytes, into batch, which is empty.
func (f *Flow) takeSettlements(from *queue[Settlement], batch []Settlement) []Settlement {
	bytes := 0
	for from.len() > 0 && len(batch) < SettleBatch {
		next := &from.buf[from.head]
		if len(batch) > 0 && (next.Session != batch[0].Session || bytes+next.size() > settleBytes) {
			break
		}
		bytes += next.size()
		batch = append(batch, from.pop())
		batch, bytes = f.takeEarly(batch, bytes)
	}
	return batch
}

// takeEarly takes what has succeeded behind the last of a batch in its sequence into the same call: in a sequence they are
// settled one after the other, or together.
func (f *Flow) takeEarly(batch []Settlement, bytes int) ([]Settlement, int) {
	head := batch[len(batch)-1]
	if head.Kind != ledger.Succeed || head.Item.phase != settling {
		return batch, bytes
	}
	for it := head.Item.next; it != nil && len(batch) < SettleBatch && it.sess == head.Session; it = it.next {
		early := it.rest().early
		if it.phase != running || early == nil {
			break
		}
		s := Settlement{Item: it, Session: it.sess, Kind: ledger.Succeed, More: early.more}
		if bytes+s.size() > settleBytes {
			break
		}
		it.extra.early = nil
		f.s.setPhase(it, settling)
		batch, bytes = append(batch, s), bytes+s.size()
	}
	return batch, bytes
}

// MaybeSettled is for settlements of which the ledger may have carried out some, without an answer.
func (f *Flow) MaybeSettled(b *Batch) {
	for i := range b.Items {
		if b.Items[i].unharmed() {
			b.Items[i].Item.forgotten()
		}
	}
}

// Settled does what the answers say. whole is ErrLost if the ledger said so of the whole call.
func (f *Flow) Settled(now time.Duration, b *Batch, errs []error, whole error) {
	answer := func(i int) error {
		if whole != nil {
			return whole
		}
		return errs[i]
	}
	for i := range b.Items {
		f.settledOne(now, &b.Items[i], answer(i))
	}
	for i, r := range b.Ranges {
		f.settledRange(now, r, answer(i))
	}
}

func (f *Flow) settledOne(now time.Duration, s *Settlement, err error) {
	it := s.Item
	if it.phase != settling {
		return // the flow let go of it
	}
	if !isInvalid(err) {
		f.forget(it)
		if s.Kind == ledger.Park && it.extra != nil {
			it.extra.instead = nil
		}
	}
	switch {
	case err == nil && s.Kind == ledger.Release:
		if s.unharmed() {
			it.forgotten()
		} else {
			f.traced(it)
		}
		f.released(now, it, s.after())
	case err == nil:
		if s.Kind == ledger.Fail {
			f.tellNews(News{What: Archived, Item: it, Archive: s.More.Dead})
		}
		if s.Whole != nil {
			f.publishFiled(s)
			return
		}
		f.finish(it, Verdict{Ack: true})
	case ledger.IsLost(err):
		f.tellNews(News{What: TakenOver, Item: it, Kind: s.Kind, Token: it.ticket.Token()})
		it.asks++
		f.wait(now, it, AskAgain(0, int(it.asks), f.chance.draw()))
	case s.Kind == ledger.Succeed && !it.isHead(): // it goes with those before it, when they are repeated, or after them
		f.s.setPhase(it, running)
		f.succeed(it, s.More)
	case isInvalid(err):
		f.refused(now, s, err, false)
	default: // a locked row: this one is to be repeated
		again := *s
		f.timers.add(now+lockedRest/2+time.Duration(f.chance.draw()*float64(lockedRest/2)), func(time.Duration) { f.queueUp(again) })
	}
}

// lockedRest is how long a settlement of a locked row rests, at most.
const lockedRest = 100 * time.Millisecond

// holds says whether an item that is to wait is held meanwhile.
func (f *Flow) holds(wait time.Duration) bool { return f.cfg.HoldMax == 0 || wait <= f.cfg.HoldMax }

// released is an item that is not ours any more, on purpose.
func (f *Flow) released(now time.Duration, it *Item, after time.Duration) {
	switch {
	case it.dropped || it.Parked || f.draining || !f.holds(after):
		f.finish(it, Verdict{Again: after})
	case after > 0:
		f.s.hold(it, now+after)
	default:
		f.s.requeue(it)
	}
}

// forward puts a failure on its way: to its publisher, if there is one.
func (f *Flow) forward(s Settlement) {
	if s.Item.ticket.IsMismatch() && f.cfg.Target {
		s.Whole = new(*s.More.Dead)
	}
	if !f.cfg.Target && !f.cfg.Cipher || s.Whole != nil && !f.cfg.Cipher {
		f.queueUp(s)
		return
	}
	f.lettersOut++
	f.s.eased = true // its handler's place is free: the worker may poll for it
	if s.Item.placed {
		s.Item.more().letter = &s
		return
	}
	f.letters.push(s)
}

// publishFiled has a mismatch published that is archived.
func (f *Flow) publishFiled(s *Settlement) {
	next, more := *s, *s.More
	more.Dead = s.Whole
	next.More, next.Filed = &more, true
	f.lettersOut++
	f.letters.push(next)
}

// NextLetter takes the next failure that is to be published, sealed or both; false: there is none.
func (f *Flow) NextLetter() (s Settlement, ok bool) {
	if f.letters.len() == 0 || f.closed {
		return s, false
	}
	return f.letters.pop(), true
}

// Tries says how often a dead letter is tried at most: all, or once while the target is away and during a drain.
func (f *Flow) Tries(all int) int {
	if f.targetAway || f.draining {
		return 1
	}
	return all
}

// TargetSaid notes whether the target is away: the last message's tries were all in vain.
func (f *Flow) TargetSaid(away bool) { f.targetAway = away }

// TargetAway says that the last message's tries were all in vain.
func (f *Flow) TargetAway() bool { return f.targetAway }

// Published takes a failure back whose publisher is done with it. What cannot be sealed is not archived, so it is kept.
func (f *Flow) Published(now time.Duration, s *Settlement, unsealed error) {
	f.lettersOut--
	switch {
	case s.Filed:
		f.finish(s.Item, Verdict{Ack: true})
	case unsealed == nil:
		f.queueUp(*s)
	case s.Item.phase == settling:
		f.refused(now, s, unsealed, true)
	}
}

// refused is a settlement that the ledger refuses for its own sake, or that the cipher does not seal. The message must not be
// acknowledged, and its handler has spoken: so it is settled again and again, and everything else goes on. A release, and a
// mismatch, which is never run, are asked for again instead. What is not parked is settled as it would be without that. What the
// broker is to have back is released, to be run later, unless it is unclear under Park: that is settled all the same, or left to the
// next owner, to whom it is as uncertain.
func (f *Flow) refused(now time.Duration, s *Settlement, err error, unsealed bool) {
	it, b := s.Item, f.cfg.Backoff
	f.tellNews(News{What: Refused, Item: it, Kind: s.Kind, Err: err})
	switch {
	case s.Kind == ledger.Park:
		f.settle(now, it, it.instead(s.More))
	case s.Kind == ledger.Release || it.ticket.IsMismatch():
		it.maybe = s.Kind == ledger.Release
		if s.unharmed() { // whoever asks next is told of a first claim
			it.forgotten()
		}
		f.wait(now, it, b.Max)
	case it.unclear && f.draining:
		f.finish(it, Verdict{})
	case it.unclear:
		if it.dropped {
			f.tell(it, Verdict{Held: true})
		}
		f.keep(now, s, err, unsealed)
	case it.dropped || f.draining || !f.holds(b.Base):
		f.forget(it)
		f.settle(now, it, &ledger.Settlement{Kind: ledger.Release, After: b.Max})
	default:
		f.keep(now, s, err, unsealed)
	}
}

// instead is what is settled of an item that the ledger does not park: what was to be done without it, or it waits here.
func (it *Item) instead(park *ledger.Settlement) *ledger.Settlement {
	if it.extra != nil && it.extra.instead != nil {
		next := it.extra.instead
		it.extra.instead = nil
		return next
	}
	hold := *park
	hold.Kind, hold.Dead = ledger.Release, nil
	return &hold
}

// keep keeps a settlement, and repeats it after a backoff, which is no longer than an item is held.
func (f *Flow) keep(now time.Duration, s *Settlement, err error, unsealed bool) {
	it := s.Item
	k := f.kept[it]
	if k == nil {
		k = &kept{since: now}
		f.kept[it] = k
	}
	k.Settlement, k.why, k.unsealed = *s, err, unsealed
	k.times++
	f.s.answer(it) // its handler runs no more: others that are suspect may
	wait := f.cfg.Backoff.Ceiling(k.times)
	if f.cfg.HoldMax > 0 {
		wait = min(wait, f.cfg.HoldMax)
	}
	k.timer = f.timers.add(now+wait, func(time.Duration) {
		if k.timer = nil; k.unsealed {
			f.lettersOut++
			f.letters.push(k.Settlement)
		} else {
			f.queueUp(k.Settlement)
		}
	})
}

// giveUpKept releases an item whose settlement waits to be repeated: the broker is to have it back. What is unclear is not released.
func (f *Flow) giveUpKept(it *Item) {
	k := f.kept[it]
	switch {
	case k == nil || k.timer == nil:
	case it.unclear && f.draining:
		f.finish(it, Verdict{})
	case it.unclear:
		f.tell(it, Verdict{Held: true})
	default:
		f.forget(it)
		f.release(it)
	}
}

// Kept calls do for each settlement that was refused and is kept: since when, and why.
func (f *Flow) Kept(do func(it *Item, since time.Duration, why error)) {
	for it, k := range f.kept {
		do(it, k.since, k.why)
	}
}

// takeDone takes ranges of one session that are to be settled. Of a log they are settled in their order: one after the other,
// or in one call.
func (f *Flow) takeDone(batch []*Range) []*Range {
	if f.settleQ.len() > 0 && f.turns.settle.items() {
		return batch
	}
	f.doneRound++
	f.rangesDone.filter(func(r *Range) bool {
		if !r.whole {
			f.doneRecords -= r.Len
			return false
		}
		if len(batch) > 0 && r.sess != batch[0].sess || !f.s.logs[r.log].nextDone(r, f.doneRound) {
			return true
		}
		r.sent = true
		f.doneRecords -= r.Len
		batch = append(batch, r)
		return false
	})
	return batch
}

// sendable says how many records of ranges may be settled now.
func (f *Flow) sendable() (n int) {
	for _, r := range f.rangesDone.buf[f.rangesDone.head:] {
		if r.whole && f.s.logs[r.log].ranges[0] == r {
			return f.doneRecords
		}
	}
	return 0
}

// settledRange does what the answer says. Anything but a success is a matter of each message.
func (f *Flow) settledRange(now time.Duration, r *Range, err error) {
	if err == nil && r.whole {
		f.out = append(f.out, Finished{Range: r, Verdict: Verdict{Ack: true}})
		f.countFirst(r.Claim.First.Key.Scope, int64(r.Len))
		f.s.dropRange(r)
		return
	}
	f.expand(r.log)
	for _, it := range r.items {
		switch {
		case isParts(err) && it.phase == settling:
			f.s.setPhase(it, running) // behind the head of its sequence it waits as such
			f.succeed(it, nil)
		default:
			f.settledOne(now, &Settlement{Item: it, Session: r.sess, Kind: ledger.Succeed}, err)
		}
	}
}

// queueUp has a settlement sent when it is its turn.
func (f *Flow) queueUp(s Settlement) {
	if s.Kind == ledger.Park {
		f.parks.queue.push(s)
	} else {
		f.settleQ.push(s)
	}
}

// mayPark says whether it is the turn of those that park.
func (f *Flow) mayPark() bool {
	p := &f.parks
	return p.queue.len() > 0 && !p.calling && (p.rest == nil || f.settling+f.settleQ.len()+f.sendable() == 0)
}

// nextParks takes as many as fit into a call.
func (f *Flow) nextParks(now time.Duration, b *Batch) bool {
	f.parks.calling, b.parks, b.began = true, true, now
	b.Items = f.takeSettlements(&f.parks.queue, b.Items)
	b.n = len(b.Items)
	return true
}

// parksOver begins the rest behind a call.
func (f *Flow) parksOver(now time.Duration, b *Batch) {
	p := &f.parks
	p.calling = false
	p.hurried = p.hurried && p.queue.len() > 0
	f.timers.remove(p.rest)
	if p.rest = nil; !p.hurried {
		p.rest = f.timers.add(now+min(parkRests*(now-b.began), parkRestMost), func(time.Duration) { p.rest = nil })
	}
}

// hurryParks has those that wait rest no more.
func (f *Flow) hurryParks() {
	p := &f.parks
	f.timers.remove(p.rest)
	p.rest, p.hurried = nil, true
}
