package offsets

import (
	"slices"
	"time"
)

// How long a partition that crowds may go on to do so before it is left out of polls.
const (
	stuckAfter  = time.Second            // if it gives nothing back
	starveAfter = 100 * time.Millisecond // if another partition has something to read, and nothing in hand
)

// Crowded looks for partitions that have more in hand than there is room left for all of them (a shared buffer with
// dynamic thresholds), and so would fill the worker's hands while they wait for one record, or are slower than the others. It returns
// those that are stuck, which must leave the rest of the room to the others, and in how long to look again before the next poll; zero:
// poll. One partition alone crowds nobody.
func (t *Table) Crowded(now time.Time) (stuck []*Assignment, wait time.Duration) {
	if !t.crowded() {
		t.crowdedAt = time.Time{}
		return nil, 0
	}
	if t.crowdedAt.IsZero() {
		t.crowdedAt = now
	}
	starving := t.starving()
	for _, a := range t.now {
		if a.closed || a.stuck || !t.crowds(a, 1) {
			continue
		}
		left := stuckAfter - now.Sub(a.moved)
		if starving && t.mostly(a) {
			left = min(left, starveAfter-now.Sub(t.crowdedAt))
		}
		if left > 0 {
			wait = max(wait, left)
			continue
		}
		a.stuck = true
		t.stuck++
		stuck = append(stuck, a)
	}
	return stuck, wait
}

// crowded says whether a partition crowds that is read.
func (t *Table) crowded() bool {
	return len(t.now) > 1 && t.scarce() && slices.ContainsFunc(t.now, func(a *Assignment) bool { return !a.closed && !a.stuck && t.crowds(a, 1) })
}

// mostly says whether most of what is in hand is of a partition.
func (t *Table) mostly(a *Assignment) bool {
	return a.held > t.held/2 || a.weight.Counted() > t.weight.Counted()/2
}

// starving says whether a partition has something to read, and nothing in hand.
func (t *Table) starving() bool {
	return slices.ContainsFunc(t.now, func(a *Assignment) bool {
		lag, _ := a.Lag()
		return !a.closed && a.pausedAt.IsZero() && !a.stuck && a.held == 0 && lag > 0
	})
}

// scarce says whether there is little room left: as long as there is more, a partition may have as much in hand as it likes.
func (t *Table) scarce() bool {
	return t.most-t.held <= t.most/4 || t.weight.Room() <= t.weight.Limit/4
}

// crowds says whether a partition has more in hand than that part of the room. Of one that has nothing in hand, none can be given back.
func (t *Table) crowds(a *Assignment, part int) bool {
	return a.held > 0 && (a.held > (t.most-t.held)/part || a.weight.Counted() > t.weight.Room()/int64(part))
}

// Unstuck returns the partitions that were stuck and may be read again: they have less than half of what there is room for.
func (t *Table) Unstuck() (free []*Assignment) {
	if t.stuck == 0 {
		return nil
	}
	t.stuck = 0
	for _, a := range t.now {
		switch {
		case !a.stuck:
		case t.crowds(a, 2):
			t.stuck++
		default:
			a.stuck = false
			free = append(free, a)
		}
	}
	return free
}

// Reason says why a partition is not read.
type Reason uint8

// The reasons.
const (
	Read    Reason = iota // it is read
	AtSpan                // the span's limit
	Crowds                // it leaves the room to other partitions
	AllFull               // likewise, and there is no room at all
)

// Why says why a partition is not read, and since when.
func (t *Table) Why(a *Assignment) (Reason, time.Time) {
	switch {
	case !a.pausedAt.IsZero():
		return AtSpan, a.pausedAt
	case !a.stuck:
		return Read, time.Time{}
	case t.weight.Room() <= 0 || t.held >= t.most:
		return AllFull, a.moved
	}
	return Crowds, a.moved
}

// Full says whether a partition is not to be read for now.
func (t *Table) Full(p TopicPartition) bool {
	a := t.Get(p)
	if a == nil || a.closed {
		return false
	}
	why, _ := t.Why(a)
	return why != Read
}
