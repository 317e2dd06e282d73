package flow

import "time"

// ProbeWaits says whether a message can be tried now.
func (f *Flow) ProbeWaits(now time.Duration) bool { return f.s.claimQ.len() > 0 && f.mayProbe(now) }

// NextProbe takes the message that is tried next; nil: there is none.
func (f *Flow) NextProbe(now time.Duration) *Item {
	if !f.mayProbe(now) {
		return nil
	}
	taken := f.s.takeClaims(1, true, nil)
	if len(taken) == 0 {
		f.cmd.Improved = true // there is nothing to try: it is to be polled for
		return nil
	}
	it := taken[0]
	f.probing.begin(it)
	it.placed, it.more().awaited = true, true
	return it
}

// Probed notes what came of the message that was tried, if it was this one.
func (f *Flow) Probed(now time.Duration, it *Item) {
	if f.probing.item != it {
		return
	}
	end, b := f.probing.spoken, &f.breaker
	f.probing.item = nil
	switch {
	case end == probeVoid:
	case end == probeAgain:
		b.again(now)
		f.lookAfter(now, againPause)
	case b.tried(now, end == probeGood):
		f.tellNews(News{What: BreakerClosed, After: now - f.probing.since})
	case end == probeBad:
		f.tellNews(News{What: ProbeFailed, Item: it, After: b.pause})
		f.lookAfter(now, b.pause)
	}
	f.cmd.Improved = true
}

// NextSuspect takes the next suspect that can be asked for; nil: there is none, now.
func (f *Flow) NextSuspect(now time.Duration) *Item {
	for f.s.suspectQ.len() > 0 && f.maySolo(now) {
		if it := f.s.suspectQ.pop(); f.takeAlone(it) {
			if f.breaker.open {
				f.probing.begin(it)
			}
			return it
		}
	}
	return nil
}

// SuspectAgain takes the suspect that has the place; false: it cannot be asked for now.
func (f *Flow) SuspectAgain(it *Item) bool { return f.sess != nil && f.takeAlone(it) }

func (f *Flow) takeAlone(it *Item) bool {
	if it.phase != suspect || !it.isHead() || !f.s.grab(it) {
		return false
	}
	f.s.setPhase(it, claiming)
	it.placed, it.more().awaited = true, true
	return true
}

// maySolo says whether a suspect may be asked for.
func (f *Flow) maySolo(now time.Duration) bool { return f.MayStart() || f.mayProbe(now) }

// SuspectWaits says whether a suspect can be asked for.
func (f *Flow) SuspectWaits(now time.Duration) bool { return f.maySolo(now) && f.s.suspectQ.len() > 0 }

// Undecided says whether a suspect that had its turn may be ours still, or is being settled; again: it can be asked for.
func (f *Flow) Undecided(it *Item) (undecided, again bool) {
	undecided = (it.maybe && it.phase != finished || it.phase == settling) && !f.draining && !f.closed
	return undecided, undecided && it.phase == suspect && it.isHead() && f.sess != nil && f.up
}

// Concluded ends the turn of an item that was dispatched alone, or is not ours. Its dead letter, if there is one, is to be
// published in its place; awaited says that the answer to its settlement is still to come, as a command.
func (f *Flow) Concluded(it *Item) (letter *Settlement, awaited bool) {
	it.placed = false
	r := it.more()
	letter, r.letter = r.letter, nil
	if it.phase != settling {
		r.awaited = false
	}
	return letter, r.awaited
}
