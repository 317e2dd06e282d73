package flow

import (
	"slices"
	"time"
)

// Ended says that all that matched is finished, and its worker knows.
func (d *Drop) Ended() bool { return d.ended }

func (f *Flow) minus(d *Drop) {
	if d.left--; d.left == 0 {
		d.ended = true
		f.timers.remove(d.grace)
		f.cmd.Ended = append(f.cmd.Ended, d)
	}
}

// Tell takes what is finished into t, which is not in use; false: there is nothing to tell. It is to be followed by Told.
func (f *Flow) Tell(t *Telling) bool {
	if len(f.out) == 0 {
		return false
	}
	t.Finished, f.out = f.out, t.Finished[:0]
	t.drops = append(t.drops[:0], f.untold...)
	f.untold = f.untold[:0]
	f.calls[t] = struct{}{}
	return true
}

// Told notes that the worker's call has returned.
func (f *Flow) Told(t *Telling) {
	delete(f.calls, t)
	for i := range t.Finished {
		if it := t.Finished[i].Item; it != nil { // whoever drops a range while its worker is told is in t.drops
			for _, d := range it.rest().drops {
				f.minus(d)
			}
		}
	}
	for _, d := range t.drops {
		f.minus(d)
	}
	clear(t.Finished)
}

// Drop takes back what matches: what was not started is released and finished at once, what runs may go on for grace. match is
// asked of items, sample makes one of a range's. The drop is ended when all that matched is finished.
func (f *Flow) Drop(now time.Duration, match func(*Item) bool, grace time.Duration, of any) *Drop {
	d := f.drop(now, match, false, of)
	if d.left > 0 {
		d.grace = f.timers.add(now+max(grace, 0), func(time.Duration) { f.TellRest(d, Revoked) })
	}
	return d
}

// Drain stops all that has not begun. Its drop is ended when no handler runs and all that ran is settled, be it of a message
// that the broker has back long since: what handlers use, the caller closes next.
func (f *Flow) Drain(now time.Duration, of any) *Drop {
	f.draining = true
	for it := range f.items {
		if it.told && it.unclear { // what has its worker wait is given up
			f.giveUpKept(it)
		}
	}
	return f.drop(now, everything, true, of)
}

// Close ends everything; after Drain there is nothing left to end.
func (f *Flow) Close(now time.Duration) {
	f.closed, f.draining = true, true
	f.TellRest(f.drop(now, everything, false, nil), Shutdown)
	f.cmd.Improved = true
}

func everything(*Item) bool { return true }

func (f *Flow) drop(now time.Duration, match func(*Item) bool, last bool, of any) *Drop {
	f.hurryParks()
	f.recallAll()
	d := &Drop{left: 1, Of: of}
	for it := range f.items {
		if !it.told && match(it) {
			it.dropped = true
			r := it.more()
			r.drops = append(r.drops, d)
			d.left++
			f.letGo(now, it)
		}
	}
	for t := range f.calls {
		if slices.ContainsFunc(t.Finished, func(fin Finished) bool { return match(fin.sample()) }) {
			t.drops = append(t.drops, d)
			d.left++
		}
	}
	if len(f.out) > 0 { // what was finished just now is to be told before
		f.untold = append(f.untold, d)
		d.left++
	}
	if last {
		d.left++
		f.last = d
		f.noteIdle()
	}
	f.minus(d)
	return d
}

// sample is the item, or one like those of the range.
func (fin *Finished) sample() *Item {
	if fin.Item != nil {
		return fin.Item
	}
	return fin.Range.Records.Expand(0, 1)[0]
}

// noteIdle tells the last drop when no handler runs any more, and nothing is owed to the ledger, of what the broker has back as
// of what it may get back yet: the grace of a drop before this one may end meanwhile. No handler begins after it has begun.
func (f *Flow) noteIdle() {
	if d := f.last; d != nil && f.s.working == 0 {
		f.last = nil
		f.minus(d)
	}
}

// letGo lets go of an item as far as that can be done at once. One that is being claimed or settled is let go of when that is
// over, one that was dispatched when it is recalled, when its handler has ended or the grace is over.
func (f *Flow) letGo(now time.Duration, it *Item) {
	if it.maybe && !f.draining && it.phase != claiming { // it may be ours, and is asked for until that is known
		f.tell(it, Verdict{Held: true})
		if it.phase == suspect { // it will not run, so it needs no place for that
			f.s.requeue(it)
		}
		return
	}
	switch it.phase {
	case queued, suspect:
		f.finish(it, Verdict{})
	case waiting:
		f.finish(it, Verdict{Again: max(it.due-now, 0)})
	case claimed:
		f.release(it)
	case settling:
		f.giveUpKept(it)
	}
}

// TellRest gives the broker back what is still in hand of a drop: the grace is over. Running handlers are cancelled.
func (f *Flow) TellRest(d *Drop, cause Cause) {
	if d.ended {
		return
	}
	for it := f.all; it != nil; it = it.allNext {
		if it.told || !slices.Contains(it.rest().drops, d) {
			continue
		}
		f.callOff(it, cause)
		f.tell(it, Verdict{Held: true})
	}
}

func (f *Flow) callOff(it *Item, cause Cause) {
	if d := it.dispatch; d != nil {
		f.cmd.CallOff = append(f.cmd.CallOff, CallOff{d, slices.Index(d.Items, it), cause})
	}
}

// CancelAll cancels the handlers that a drain waited for in vain, and calls do for all that is still in hand.
func (f *Flow) CancelAll(do func(*Item)) {
	for it := f.all; it != nil; it = it.allNext {
		f.callOff(it, Shutdown)
		if !it.told || it.works() {
			do(it)
		}
	}
}

// Joined begins a session.
func (f *Flow) Joined(s *Session) {
	f.sess, f.up = s, true
	f.cmd.Improved = true
}

// LeaseLost ends a session: its handlers are cancelled, what it had claimed is nobody's to us, and nothing starts until the
// worker has joined anew. It is false if that is known.
func (f *Flow) LeaseLost(now time.Duration, s *Session) bool {
	if s.lost {
		return false
	}
	s.lost = true
	if f.sess == s {
		f.sess, f.up = nil, false
	}
	f.recallAll()
	for it := range f.items {
		if it.sess == s {
			f.callOff(it, Lost)
			f.loseItem(it)
		}
	}
	f.losePermits()
	return true
}

// loseItem is for an item whose session ended: it is not ours, or will not be once the session is left.
func (f *Flow) loseItem(it *Item) {
	switch it.phase {
	case claimed:
		f.giveBack(it)
	case queued, waiting, suspect:
		it.maybe = false
		if it.dropped {
			f.finish(it, Verdict{})
		} else {
			f.s.letGo(it)
		}
	}
}

// Busy says whether a handler runs for a session's message.
func (f *Flow) Busy(s *Session) bool {
	of := func(it *Item) bool { return it.sess == s }
	return slices.ContainsFunc(f.dispatches, func(d *Dispatch) bool {
		if d.rng != nil {
			return d.rng.sess == s
		}
		return slices.ContainsFunc(d.Items[d.applied:d.limit], of)
	})
}

// Reachable keeps whether the ledger answers; it says what it was before and is now.
func (f *Flow) Reachable(now time.Duration, yes bool) (was, is bool) {
	was = f.up
	f.up = yes && f.sess != nil
	if f.up && !was {
		f.cmd.Improved = true
	}
	if !f.up {
		f.recallAll()
	}
	return was, f.up
}

// Pause stops all that has not begun.
func (f *Flow) Pause(now time.Duration) {
	f.paused = true
	if f.cfg.Park { // what is ours and does not begin would be uncertain if we died
		f.releaseClaimed()
	} else {
		f.recallAll()
	}
}

// releaseClaimed gives back all that is ours and has not begun.
func (f *Flow) releaseClaimed() {
	f.recallAll()
	for it := range f.items {
		if it.phase == claimed {
			f.release(it)
		}
	}
}

// Resume goes on.
func (f *Flow) Resume() {
	f.paused = false
	f.cmd.Improved = true
}
