package flow

import "time"

// Bounds of the breaker; consumer.Breaker names them for users.
const (
	breakerSlot  = time.Second
	breakerSlots = 60 // what came to its end within so many slots counts
	firstPause   = time.Second
	longestPause = time.Minute
	againPause   = 100 * time.Millisecond
	proofs       = 5                // tries in a row that must succeed
	calm         = 10 * time.Minute // closed for as long, it begins with the first pause again
)

// breaker decides when a worker stops because too much fails for good, when it tries a message, and when it goes on. It is
// pure: no lock, no clock, no I/O. Times are since any moment; one that lies before another that it was told is taken for that.
type breaker struct {
	failures, percent int // both must be exceeded; zero failures: it is off

	slots  [breakerSlots]tally
	newest int64 // the slot of the latest time
	sum    tally // of all slots

	open   bool
	until  time.Duration // no message is tried before
	pause  time.Duration // the last one; zero: there was none of late
	closed time.Duration // when it closed last
	row    int           // tries in a row that succeeded
}

// tally counts messages that came to their end.
type tally struct{ good, bad int }

// handled counts messages that came to their end, and says whether the breaker opens at that.
func (b *breaker) handled(now time.Duration, good, bad int) bool {
	if b.open || b.failures == 0 {
		return false
	}
	s := b.advance(now)
	s.good, s.bad = s.good+good, s.bad+bad
	b.sum.good, b.sum.bad = b.sum.good+good, b.sum.bad+bad
	if bad == 0 || b.sum.bad <= b.failures || b.sum.bad*100 <= b.percent*(b.sum.good+b.sum.bad) {
		return false
	}
	if now-b.closed >= calm {
		b.pause = 0
	}
	b.open = true
	b.wait(now)
	return true
}

// advance lets go of what is too old, and returns the newest slot.
func (b *breaker) advance(now time.Duration) *tally {
	at := int64(now / breakerSlot)
	for n := max(b.newest, at-breakerSlots) + 1; n <= at; n++ {
		old := &b.slots[n%breakerSlots]
		b.sum.good, b.sum.bad = b.sum.good-old.good, b.sum.bad-old.bad
		*old = tally{}
	}
	b.newest = max(b.newest, at)
	return &b.slots[b.newest%breakerSlots]
}

// wait begins a pause, twice as long as the one before.
func (b *breaker) wait(now time.Duration) {
	b.row = 0
	b.pause = min(max(2*b.pause, firstPause), longestPause)
	b.until = now + b.pause
}

// again begins a short pause: a try came to nothing, which says nothing of the next one.
func (b *breaker) again(now time.Duration) { b.until = now + againPause }

// mayTry says whether it is time to try a message.
func (b *breaker) mayTry(now time.Duration) bool { return b.open && now >= b.until }

// tried notes what a message came to that was tried, and says whether the breaker closes at that.
func (b *breaker) tried(now time.Duration, good bool) bool {
	if !b.open {
		return false
	}
	if !good {
		b.wait(now)
		return false
	}
	if b.row++; b.row < proofs {
		return false
	}
	*b = breaker{failures: b.failures, percent: b.percent, newest: b.newest, pause: b.pause, closed: now}
	return true
}
