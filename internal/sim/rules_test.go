package sim

import "testing"

// A rule that is not heeded is told: here handlers begin one message after the other, and none ends.
func TestBrokenRulesAreTold(t *testing.T) {
	promises := map[string]func(x *broken){}
	for k, rule := range rules {
		promises[rule.promise] = func(x *broken) {
			x.w.cfg.Rules[k] = 1
			for _, r := range x.part().records {
				x.d = r.delivery
				x.d.first = true
				x.begins(0, 1)
			}
		}
	}
	areTold(t, promises)
}

// Each rule is drawn, with each bound that it may have, and most worlds have none.
func TestRulesAreDrawn(t *testing.T) {
	t.Parallel()
	const worlds = 2000
	drawn, without := [ruleKinds]map[int]bool{}, 0
	for seed := range uint64(worlds) {
		world := Drawn(seed).Rules
		for k, bound := range world {
			if drawn[k] == nil {
				drawn[k] = map[int]bool{}
			}
			drawn[k][bound] = true
		}
		if world == (bounds{}) {
			without++
		}
	}
	for k, rule := range rules {
		if len(drawn[k]) != rule.most+1 || !drawn[k][0] || !drawn[k][rule.most] {
			t.Errorf("%q has bounds %v", rule.promise, drawn[k])
		}
	}
	if without < worlds/2 {
		t.Errorf("%d of %d worlds have no rules", without, worlds)
	}
}
