package model

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"

	"github.com/ackledger/ackledger/internal/promises"
)

// Violation is a promise that was broken, and how.
type Violation struct {
	Promise string
	Trace   []string // every step from the start; of Explore the shortest way there
	// Recovery is what was done without any further fault, if it did not lead to an end.
	Recovery []string
}

// Error tells all of it, a line a step.
func (v *Violation) Error() string {
	text := v.Promise
	for i, line := range v.Trace {
		text += fmt.Sprintf("\n%4d %s", i+1, line)
	}
	for _, line := range v.Recovery {
		text += "\n   + " + line
	}
	return text
}

// Report says how far an exploration went.
type Report struct {
	States    int // different ones that Explore saw
	Steps     int // made
	Walks     int // that Walk took
	Recovered int // states from which everything came to its end without further faults
	Complete  bool
}

// promiseEnd is the promise that recovery checks: nobody waits for ever.
const promiseEnd = promises.ComesToItsEnd + ": without further faults a message is stuck"

// Explore goes through all states of a world, breadth first, and ends at the first broken promise: its error is a
// [*Violation] then. From every checks-th state on it also lets the world come to rest (0: none). It holds two generations
// of states and some 40 bytes for each state that was ever seen, and ends with Complete false when there are more than
// most. Two states with the same 64-bit hash are taken for one: with ten million states, one is missed in 30,000 runs.
func Explore(cfg Config, most, checks int) (Report, error) {
	if err := cfg.check(); err != nil {
		return Report{}, err
	}
	e := explorer{x: newMachine(cfg), rest: newMachine(cfg), seed: maphash.MakeSeed(), seen: map[uint64]uint32{}, checks: checks}
	first := cfg.initial()
	e.known(&first, 0, step{})
	generation, ids := []state{first}, []uint32{0}
	for len(generation) > 0 {
		var after []state
		var afterIDs []uint32
		for i := range generation {
			all := e.x.steps(&generation[i])
			for j := range all {
				n := &all[j]
				e.report.Steps++
				id, fresh := e.known(&n.state, ids[i], n.step)
				if why := e.x.broke(&generation[i], n); why != "" {
					return e.report, e.violation(why, ids[i], n.step)
				}
				if !fresh {
					continue
				}
				if err := e.settle(&n.state, id); err != nil {
					return e.report, err
				}
				after, afterIDs = append(after, n.state), append(afterIDs, id)
			}
			if len(e.parents) > most {
				e.report.States = len(e.parents)
				return e.report, nil
			}
		}
		generation, ids = after, afterIDs
	}
	e.report.States, e.report.Complete = len(e.parents), true
	return e.report, nil
}

type explorer struct {
	x, rest *machine
	seed    maphash.Seed
	seen    map[uint64]uint32
	parents []uint32
	made    []step // that led from the parent to the state
	checks  int
	report  Report
}

// known notes a state. fresh says that it was not known.
func (e *explorer) known(s *state, parent uint32, st step) (id uint32, fresh bool) {
	h := maphash.Comparable(e.seed, *s)
	if id, ok := e.seen[h]; ok {
		return id, false
	}
	id = uint32(len(e.parents))
	e.seen[h] = id
	e.parents, e.made = append(e.parents, parent), append(e.made, st)
	return id, true
}

// settle lets the world come to rest from some of the states.
func (e *explorer) settle(s *state, id uint32) error {
	if e.checks == 0 || int(id)%e.checks != 0 {
		return nil
	}
	why, recovery := e.rest.recover(s)
	if why == "" {
		e.report.Recovered++
		return nil
	}
	v := e.violation(why, e.parents[id], e.made[id])
	v.Recovery = recovery
	return v
}

// violation finds the way to a state's successor.
func (e *explorer) violation(why string, parent uint32, last step) *Violation {
	way := []step{last}
	for id := parent; id != 0; id = e.parents[id] {
		way = append(way, e.made[id])
	}
	slices.Reverse(way)
	e.report.States = len(e.parents)
	first := e.x.cfg.initial()
	return &Violation{Promise: why, Trace: e.x.tell(&first, way)}
}

var errWorld = errors.New("model: the same step is not there again")

// tell goes a way again, to describe it.
func (x *machine) tell(from *state, way []step) []string {
	s := *from
	var lines []string
	for _, st := range way {
		i := slices.IndexFunc(x.steps(&s), func(n next) bool { return n.step == st })
		if i < 0 {
			return append(lines, errWorld.Error())
		}
		n := x.out[i]
		lines = append(lines, x.describe(&s, &n))
		s = n.state
	}
	return lines
}

// Walk takes walks through a world, each of at most length steps, with faults as likely as the seed says, and lets it come
// to rest at the end of each. It ends at the first broken promise, with a [*Violation].
func Walk(cfg Config, seed uint64, walks, length int) (Report, error) {
	if err := cfg.check(); err != nil {
		return Report{}, err
	}
	x, rest := newMachine(cfg), newMachine(cfg)
	var report Report
	for i := range walks {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		if err := x.walk(rest, rng, length, &report); err != nil {
			return report, fmt.Errorf("seed %d, walk %d: %w", seed, i, err)
		}
		report.Walks++
	}
	report.Complete = true
	return report, nil
}

func (x *machine) walk(rest *machine, rng *rand.Rand, length int, report *Report) error {
	first := x.cfg.initial()
	s := first
	reckless := rng.Float64() * 0.3
	var way []step
	for range length {
		all := x.steps(&s)
		if len(all) == 0 {
			break
		}
		n := &all[pick(rng, all, rng.Float64() < reckless)]
		report.Steps++
		way = append(way, n.step)
		if why := x.broke(&s, n); why != "" {
			return &Violation{Promise: why, Trace: x.tell(&first, way)}
		}
		s = n.state
	}
	why, recovery := rest.recover(&s)
	if why != "" {
		return &Violation{Promise: why, Trace: x.tell(&first, way), Recovery: recovery}
	}
	report.Recovered++
	return nil
}

// pick chooses a step: a fault, if there is one and it is wanted, else another.
func pick(rng *rand.Rand, all []next, fault bool) int {
	count, chosen := 0, -1
	for i := range all {
		if all[i].fault == fault {
			if count++; rng.IntN(count) == 0 {
				chosen = i
			}
		}
	}
	if chosen < 0 {
		return rng.IntN(len(all))
	}
	return chosen
}
