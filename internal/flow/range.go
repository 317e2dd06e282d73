package flow

import (
	"slices"
	"time"
)

// patience is how long a range waits for the items of its log to be over.
const patience = 250 * time.Millisecond

// cooldown is for how long no ranges are offered after a handler made one expand: they pay where nothing but success happens.
const cooldown = 100 * time.Millisecond

// Ranges says whether ranges may be claimed and run. A batch has one message of an ordering key at most, so ordered records go
// one by one into batches. Rules look at each item.
func (f *Flow) Ranges(ordered bool) bool {
	return !f.cfg.LimitStarts && len(f.cfg.Rules) == 0 && f.MayStart() && f.sess.Ranges && (!f.cfg.Batch || !ordered)
}

// pays says whether a range is worth a try: handlers are fast, and did well of late, and it fills a batch.
func (f *Flow) pays(r *Range, now time.Duration) bool {
	return f.cost > 0 && f.cost <= f.quick() && r.Len >= f.cfg.BatchSize && now >= f.coolUntil
}

// quick is how long a call of the handler may take for ranges to pay.
func (f *Flow) quick() time.Duration {
	if f.cfg.Batch {
		return batchSpread
	}
	return spread
}

// OfferRange takes a range in hand.
func (f *Flow) OfferRange(now time.Duration, r *Range) {
	r.log, r.whole, r.came = r.Claim.First.Key.Pos.Log, true, now
	for i := range r.Len {
		r.bytes += r.Records.Size(i)
	}
	f.lastRanged = true
	f.meets(now, r.Claim.First.Key.Scope)
	f.s.addRange(r)
	if l := f.s.logs[r.log]; !f.Ranges(r.Ordered) || l.stalled > 0 || !l.flows() && !f.pays(r, now) {
		f.expand(r.log)
	} else {
		f.s.rangeQ.push(r)
	}
}

// expand makes items of all ranges of a log, each in the phase in which it would be by itself.
func (f *Flow) expand(log string) {
	l := f.s.logs[log]
	if l == nil || len(l.ranges) == 0 {
		return
	}
	for _, r := range append([]*Range(nil), l.ranges...) {
		f.expandOne(r)
	}
	whole := func(r *Range) bool { return r.whole }
	f.s.rangeQ.filter(whole)
	f.s.rangeReady.filter(whole)
}

func (f *Flow) expandOne(r *Range) {
	before, behind := r.Records.Expand(0, r.done), r.Records.Expand(r.next, r.Len)
	f.s.dropRange(r)
	for _, it := range before {
		r.ready(it)
		f.takeIn(it)
		f.s.holdKey(it)
		if r.sent {
			f.s.setPhase(it, settling)
		} else {
			f.s.setPhase(it, running)
			f.succeed(it, nil)
		}
	}
	if d := r.dispatch; d != nil {
		d.Items = append(d.Items, r.Records.Expand(r.done, r.next)...)
		for _, it := range d.Items {
			r.ready(it)
			it.dispatch = d
			f.takeIn(it)
			f.s.holdKey(it)
			f.s.setPhase(it, running)
		}
		r.dispatch, d.rng = nil, nil
	}
	for _, it := range behind {
		r.ready(it)
		f.takeIn(it)
		f.place(r, it)
	}
	switch {
	case r.sent:
		r.items = before
	case r.phase == claiming:
		r.items = behind
	}
}

// takeIn takes an item of a range in hand.
func (f *Flow) takeIn(it *Item) {
	f.enlist(it)
	f.s.enter(it)
}

// place puts an item that was taken in where its range stood.
func (f *Flow) place(r *Range, it *Item) {
	switch {
	case r.phase == claimed && f.s.holdKey(it):
		f.ours(it)
	case r.phase == claimed: // another copy has its key
		f.release(it)
	case r.phase == claiming && f.s.holdKey(it):
		f.s.setPhase(it, claiming)
	case f.draining:
		f.finish(it, Verdict{})
	default:
		f.s.list(it, false)
	}
}

// expandAll expands the ranges of all logs.
func (f *Flow) expandAll() {
	for _, log := range f.s.logs.names() {
		f.expand(log)
	}
}

// expandBlocked expands ranges that wait for items of their log which are not over soon.
func (f *Flow) expandBlocked(now time.Duration) {
	for _, log := range f.s.logs.names() {
		l := f.s.logs[log]
		if l.items > 0 && slices.ContainsFunc(l.ranges, func(r *Range) bool {
			return r.phase == queued && (l.stalled > 0 || now-r.came > patience)
		}) {
			f.expand(log)
		}
	}
}
