package driver

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

const (
	// ClockDrift is how far from true time the monotonic clock of any machine may run, in parts per million: fast or slow, as long
	// as one lease is watched. Quartz is off by 100, and daemons steer clocks by 500 (ntpd). One clock may be fast and the other
	// slow, so a [Watch] waits for a little more than twice that.
	ClockDrift = 1_000
	// WatchFloor is what a [Watch] waits beyond that, however short the lease is. It is for what no rate bounds: a daemon that
	// corrects an offset quickly (chrony goes up to 83,333 ppm) moves the clock by that offset and no more. Offsets above 128 ms
	// are stepped, which moves no monotonic clock, and two clocks may be moved.
	WatchFloor = 256 * time.Millisecond
)

// Watch is what one process has seen of the owners of a store that has no clock of a server. There an owner has a beat: a number
// that changes each time that its owner extends the lease. Who has seen the same beat for longer than the lease may declare the
// owner dead, with a write on the condition that the beat is still that one and the owner live; a beat is a write on the condition
// that it is live. So one item decides between the two, whenever they arrive.
//
// The owner counts its lease from before it sent the beat, a Watch from after it has read it, each on its own monotonic clock: so
// an owner that believes that its lease is running is overdue for nobody. No wall clock is read. What is assumed are the clocks'
// rates alone ([ClockDrift], [WatchFloor]). The clock of a machine that was suspended stands still; its owner may believe too
// long, and then the conditions of its writes alone hold it back, as they do a frozen one.
//
// It is pure and not safe for concurrent use. The zero value has seen nobody. It has no more owners than it was told of since
// [Watch.Keep].
type Watch struct{ seen map[OwnerID]sight }

// Sighting is a live owner as it was read. A read that is behind the writes does no harm: the declaration's condition decides.
type Sighting struct {
	Owner OwnerID
	Beat  uint64
	Lease time.Duration
}

// sight is a sighting, and when it was the first of its beat.
type sight struct {
	Sighting
	since time.Duration
}

// Note notes a sighting, and says how long the beat must stay the same from now on until its owner is overdue; 0: it is. now is
// this process' monotonic clock, read after the answer: the time since some moment of the process ([time.Since]).
func (w *Watch) Note(s Sighting, now time.Duration) time.Duration {
	first, ok := w.seen[s.Owner]
	if !ok || first.Sighting != s {
		if w.seen == nil {
			w.seen = map[OwnerID]sight{}
		}
		first = sight{s, now}
		w.seen[s.Owner] = first
	}
	return first.left(now)
}

// left is how long a beat must stay the same until its owner's lease is over by any clock.
func (s *sight) left(now time.Duration) time.Duration {
	const twice = 1_000_000 - ClockDrift // (1 + d) / (1 - d) is 1 + 2d / (1 - d)
	wait := s.Lease + s.Lease/twice*2*ClockDrift + s.Lease%twice*2*ClockDrift/twice + WatchFloor
	return max(s.since+wait-now, 0)
}

// Overdue returns the owners that may be declared dead, in the order of their ids, each with the beat that it must still have.
func (w *Watch) Overdue(now time.Duration) []Sighting {
	var all []Sighting
	for _, s := range w.seen {
		if s.left(now) == 0 {
			all = append(all, s.Sighting)
		}
	}
	slices.SortFunc(all, func(a, b Sighting) int { return cmp.Compare(a.Owner, b.Owner) })
	return all
}

// Keep forgets all owners but those that are still live. A store calls it when it has read all of them.
func (w *Watch) Keep(live func(OwnerID) bool) {
	maps.DeleteFunc(w.seen, func(id OwnerID, _ sight) bool { return !live(id) })
}
