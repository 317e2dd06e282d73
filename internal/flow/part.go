package flow

import "time"

// Begin dispatches a part of a range; nil: the range was expanded meanwhile.
func (f *Flow) Begin(now time.Duration, p Part) *Dispatch {
	r := p.Range
	r.listed = false
	f.handed--
	if !f.MayStart() {
		f.expand(r.log)
	}
	if !r.whole {
		return nil
	}
	d := f.anyDispatch(now, p.To-p.From, r)
	r.dispatch = d
	f.s.aheadOfRanges(-d.N)
	r.next = p.To
	f.begins(now, d)
	return d
}

// EndedRange takes a dispatch whose runs all went well, or not, if it is of a whole range. It is false if the dispatch is its
// range's no more: then each of its items is over by itself.
func (f *Flow) EndedRange(now time.Duration, d *Dispatch, plain bool) bool {
	r := d.rng
	if r == nil {
		return false
	}
	if !plain || r.sess.lost || f.cost > 4*f.quick() {
		f.Itemize(now, d)
		return false
	}
	d.recalled = true
	f.unwatch(d)
	d.applied, r.dispatch = d.N, nil
	f.pace.done += d.N
	f.breaker.handled(now, d.N, 0)
	f.well += int64(d.N)
	if r.done = r.next; r.done == r.Len {
		f.settleRange(r)
	} else if !f.MayStart() {
		f.expand(r.log)
	} else {
		f.s.mayRun(r.log)
	}
	return true
}

// settleRange puts a range's success on its way.
func (f *Flow) settleRange(r *Range) {
	r.phase = settling
	f.doneRecords += r.Len
	f.rangesDone.push(r)
	f.s.mayRun(r.log)
}

// relieve expands ranges of which a batch handler has some for long while another handler has nothing to do: the rest is for
// that one, as far as order allows. One that takes longer still keeps what was done before it from being settled no more.
func (f *Flow) relieve(now time.Duration, idle int) {
	for _, d := range f.dispatches {
		r, long := d.rng, now-d.born
		if r != nil && d.Together && (r.next < r.Len && idle > 0 && long > f.quick() || r.done > 0 && long > 4*f.quick()) {
			f.expand(r.log)
		}
	}
}

// Itemize makes items of the range that a dispatch is part of, if it is: not all of its messages go well.
func (f *Flow) Itemize(now time.Duration, d *Dispatch) {
	if d.rng != nil {
		f.coolUntil = now + cooldown
		f.expand(d.rng.log)
	}
}

// Rescue gives to others what a batch handler keeps, and makes items of ranges that wait in vain.
func (f *Flow) Rescue(now time.Duration, idle int) {
	f.relieve(now, min(idle, f.room()))
	f.expandBlocked(now)
}
