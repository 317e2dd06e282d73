package sim

import (
	"math/rand/v2"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
)

// ruleKind is a rule of scheduling.
type ruleKind int

// The rules of scheduling.
const (
	ofTenant ruleKind = iota
	inTurns
	ruleKinds
)

// bounds are those of the rules in a world, from 1 on; 0: a rule is not in force.
type bounds [ruleKinds]int

// rule is all that worlds know of a rule of scheduling. Its functions get what they need: the table cannot name itself.
type rule struct {
	promise string
	percent int // of the worlds have it
	most    int // its bound is at most, where it is drawn
	make    func(bound int) flow.Rule
	// heeds says of a handler that begins whether the process may have begun it.
	heeds func(p *process, r *running, bound int) bool
	// lanes is how many handlers run at least, in a world without trouble, as long as there is work for more.
	lanes func(bound int) int
}

var rules = [ruleKinds]rule{
	ofTenant: {
		promise: "of a tenant so many messages run at most in a process", percent: 20, most: 3,
		make: func(bound int) flow.Rule {
			return flow.AtMost(bound, func(it *flow.Item) string { return of(it).tenant() })
		},
		heeds: func(p *process, r *running, bound int) bool {
			return p.runs(func(o *running) bool { return o != r && of(o.it).tenant() == of(r.it).tenant() }) < bound
		},
		lanes: func(bound int) int { return bound },
	},
	inTurns: {
		promise: "of all tenants so many messages run at most in a process, half of them of one", percent: 20, most: 6,
		make: func(bound int) flow.Rule {
			return flow.Fair(flow.FairConfig{Places: bound, Share: share(bound), Weights: map[string]int{"B": 2},
				Name: func(it *flow.Item) string { return of(it).tenant() }})
		},
		heeds: func(p *process, r *running, bound int) bool {
			all := p.runs(func(o *running) bool { return o != r })
			return all < bound && p.runs(func(o *running) bool { return o != r && of(o.it).tenant() == of(r.it).tenant() }) < share(bound)
		},
		lanes: share,
	},
}

// share is how many of so many places one tenant may have.
func share(places int) int { return (places + 1) / 2 }

// tenant is whose message it is. That has nothing to do with its ordering key or its partition.
func (m message) tenant() string { return string('A' + rune(mix(uint64(m.offset))%3)) }

// runs counts the handlers of a process that run.
func (p *process) runs(which func(*running) bool) (n int) {
	for _, c := range p.chunks {
		for _, r := range c.running {
			if which(r) {
				n++
			}
		}
	}
	return n
}

// drawRules draws the bounds of a world. Each rule draws by itself, so that a new one changes no world in which it is not in force.
func drawRules(seed uint64) (drawn bounds) {
	for k, rule := range rules {
		rnd := rand.New(rand.NewPCG(seed, mix(0x401e, uint64(k))))
		if rnd.IntN(100) < rule.percent {
			drawn[k] = 1 + rnd.IntN(rule.most)
		}
	}
	return drawn
}

// rules are those of a process that begins.
func (w *world) rules() (all []flow.Rule) {
	for k, bound := range w.cfg.Rules {
		if bound > 0 {
			all = append(all, rules[k].make(bound))
		}
	}
	return all
}

// mustHeedRules checks that all rules let a handler begin.
func (w *world) mustHeedRules(r *running) {
	for k, bound := range w.cfg.Rules {
		if bound > 0 && !rules[k].heeds(r.by, r, bound) {
			w.breaks(of(r.it).message, "%s: %s begins %s, and has %d", rules[k].promise, r.by, of(r.it), bound)
		}
	}
}

// slowed is how long a message takes, and how many run at least, under the rules: what has a place is claimed, run and settled, and
// only then does the next one ask.
func (w *world) slowed(each time.Duration, lanes int) (time.Duration, int) {
	for k, bound := range w.cfg.Rules {
		if bound > 0 {
			each, lanes = each+12*time.Millisecond, min(lanes, rules[k].lanes(bound))
		}
	}
	return each, lanes
}
