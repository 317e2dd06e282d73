package slots

import "slices"

// Patience is how many slots in a row pass a level over that waits for one, until it is due. Levels that are due at once come one after the
// other, so that a level which waits gets at least one of any Patience + so many levels in a row.
const Patience = 16

// Rule says who of those that share slots has one.
type Rule struct {
	free   int
	levels []*level // that have shares, the first one first
}

// level is shares that are equal but for their weights.
type level struct {
	number int
	passed int      // slots that others got since it waits, or had one
	turns  []*Share // those of whom some wait, in the order in which they began to
	now    float64  // the start of the slot that was given last
}

// Share is one of those that share the slots. A slot of a share of weight w takes 1/w of its level's virtual time. The one goes first whose
// next slot starts first, and it starts when the one before it ends, or when the share begins to wait, if that is later: start-time fair
// queueing (Goyal, Vin and Cheng, 1996). So while one of a share waits, another gets no more slots than its weight over that share's, and one.
// A share of whom nobody waits for a moment, since it has just given a slot back, loses nothing by that.
type Share struct {
	level   *level
	weight  int
	waiting int
	start   float64 // of its next slot, while it waits
	end     float64 // of its last one
}

// New is the rule for n slots.
func New(n int) *Rule { return &Rule{free: n} }

// Join makes a share. A level with a lower number comes first. A weight of less than 1 counts as 1.
func (r *Rule) Join(number, weight int) *Share {
	at, found := slices.BinarySearchFunc(r.levels, number, func(l *level, n int) int { return l.number - n })
	if !found {
		r.levels = slices.Insert(r.levels, at, &level{number: number})
	}
	return &Share{level: r.levels[at], weight: max(weight, 1)}
}

// Ask asks for a slot; false: one of the share waits for it from now on. No slot is free while anybody waits.
func (r *Rule) Ask(s *Share) bool {
	if r.free > 0 {
		r.free--
		return true
	}
	if s.waiting++; s.waiting == 1 {
		s.start = max(s.end, s.level.now)
		s.level.turns = append(s.level.turns, s)
	}
	return false
}

// Quit ends the waiting of one of the share.
func (r *Rule) Quit(s *Share) {
	if s.waiting--; s.waiting == 0 {
		s.level.leave(s)
	}
}

// Free takes a slot back, and says of which share one that waits has it now; nil: it is free.
func (r *Rule) Free() *Share {
	l := r.next()
	if l == nil {
		r.free++
		return nil
	}
	for _, other := range r.levels {
		if other != l && len(other.turns) > 0 {
			other.passed++
		}
	}
	l.passed = 0
	return l.give()
}

// give gives a slot to the share that is to have it.
func (l *level) give() *Share {
	s := l.turns[0]
	for _, other := range l.turns[1:] {
		if other.start < s.start {
			s = other
		}
	}
	l.now = s.start
	s.end = s.start + 1/float64(s.weight)
	s.start = s.end
	if s.waiting--; s.waiting == 0 {
		l.leave(s)
	}
	return s
}

// next is the level whose turn it is: of those that are due the one that was passed over most often, else the first one that waits.
func (r *Rule) next() *level {
	var first, due *level
	for _, l := range r.levels {
		if len(l.turns) == 0 {
			continue
		}
		if first == nil {
			first = l
		}
		if l.passed >= Patience && (due == nil || l.passed > due.passed) {
			due = l
		}
	}
	if due != nil {
		return due
	}
	return first
}

// leave takes a share out of the turns, of whom none waits any more. A level of which nobody waits is not passed over.
func (l *level) leave(s *Share) {
	l.turns = slices.DeleteFunc(l.turns, func(o *Share) bool { return o == s })
	if len(l.turns) == 0 {
		l.passed = 0
	}
}
