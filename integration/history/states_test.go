package history_test

import (
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/ackledger/ackledger/ledger"
)

// states are those in which a message may be. Porcupine looks for an order of the calls that leaves one.
type states struct {
	in   []state
	over bool // what has no answer by now has no effect
}

func (m *model) porcupine() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return states{in: []state{{holder: nobody}}} },
		Step: func(s, in, _ any) (bool, any) {
			next := m.next(s.(states), in.(*op))
			return len(next.in) > 0, next
		},
		Equal:             func(a, b any) bool { return a.(states).equal(b.(states)) },
		DescribeOperation: func(in, _ any) string { return in.(*op).String() },
	}
}

// next returns the states in which the call may leave the message; none: it cannot have been answered so, or not at this
// place.
//
// A call without an answer had its effect at some time since, or never. Both are let in where it may have one. Where it cannot
// have any, it has no place before the end: else each such call would double the places to try for all the others, and a
// history with twenty of them would not be decided in a minute.
func (m *model) next(s states, o *op) states {
	switch {
	case o.Kind == theEnd:
		return states{in: s.in, over: true}
	case o.unknown() && s.over:
		return s
	}
	next := states{over: s.over}
	if o.unknown() {
		next.in = slices.Clone(s.in)
	}
	for _, one := range s.in {
		for _, after := range m.step(one, o) {
			if !slices.Contains(next.in, after) {
				next.in = append(next.in, after)
			}
		}
	}
	if o.unknown() && len(next.in) == len(s.in) {
		return states{}
	}
	return next
}

func (s states) equal(as states) bool {
	return s.over == as.over && len(s.in) == len(as.in) &&
		!slices.ContainsFunc(s.in, func(one state) bool { return !slices.Contains(as.in, one) })
}

// Forty calls without an answer, none of which can have had an effect, do not keep a history from being decided, be it right
// or wrong.
func TestCallsWithoutEffectAreDecided(t *testing.T) {
	for answered, right := range map[ledger.Answer]bool{ledger.Busy: true, ledger.Run: false} {
		lease := int64(time.Minute)
		ops := []*op{
			{Return: 1, Kind: doJoin, Owner: "a", Key: allKeys, Lease: lease},
			{Return: 1, Kind: doJoin, Owner: "b", Key: allKeys, Lease: lease},
			{Call: 2, Return: 3, Kind: doClaim, Owner: "a", Delivery: 1, Got: &answer{Answer: ledger.Run, Token: 1, Attempt: 1}},
		}
		for n := range 40 {
			without := &op{Client: n, Call: int64(4 + n), Return: never, Kind: doSettle, Settle: ledger.Succeed, Owner: "b", From: "b", Token: 7}
			if n%2 == 0 {
				without.Kind, without.Owner, without.Key = doBeat, "a", allKeys
			}
			ops = append(ops, without)
		}
		ops = append(ops, &op{Call: 50, Return: 51, Kind: doClaim, Owner: "b", Delivery: 1, Got: &answer{Answer: answered, Wait: time.Second}})
		r := record{plan: plan{Keys: 1}, ops: ops, site: &site{}}
		if wrong, undecided := r.check(); (wrong == nil) != right || undecided > 0 {
			t.Errorf("%v while another holds it: allowed %t, %d parts undecided", answered, wrong == nil, undecided)
		}
	}
}
