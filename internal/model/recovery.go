package model

import "hash/maphash"

// patience is how many steps without any fault a world may need until all is finished.
const patience = 1000

// recover lets a world come to rest: no more faults, handlers succeed (killers kill), everybody goes on. It returns why
// it does not come to its end, and the way there.
func (x *machine) recover(s *state) (why string, lines []string) {
	x.calm = true
	at := *s
	seed := maphash.MakeSeed()
	seen := map[uint64]bool{maphash.Comparable(seed, at): true}
	var way []step
	for range patience {
		if x.finished(&at) {
			return "", nil
		}
		n := x.onward(&at, seed, seen)
		if n == nil {
			return promiseEnd, x.tell(s, way)
		}
		way = append(way, n.step)
		if why := x.broke(&at, n); why != "" {
			return why, x.tell(s, way)
		}
		at = n.state
		seen[maphash.Comparable(seed, at)] = true
	}
	return promiseEnd, x.tell(s, way)
}

// onward returns the first step, in the order of the operations, that leads somewhere new.
func (x *machine) onward(s *state, seed maphash.Seed, seen map[uint64]bool) *next {
	var best *next
	all := x.steps(s)
	for i := range all {
		n := &all[i]
		if (best == nil || n.step.op < best.step.op) && !seen[maphash.Comparable(seed, n.state)] {
			best = n
		}
	}
	return best
}
