package chaos_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ackledger/ackledger/integration/chaos/plan"
)

// sound is an arm in which all is well: two messages done in order, one archived, one perhaps never sent, and a plain one that is
// done twice.
func sound() *verdict {
	return &verdict{
		sent:    []string{"fine 1", "fine 2", "bad 3", "fine 4", "plain 5"},
		doubt:   []string{"fine 4"},
		ordered: true,
		begins: map[string][]begin{
			"fine 1": {{"p1", 1, 1}, {"p2", 2, 2}}, "fine 2": {{"p1", 1, 1}}, "bad 3": {{"p1", 1, 1}},
			"plain 5": {{"p1", 1, 1}, {"p2", 2, 2}},
		},
		effects: []done{
			{id: "a", body: "fine 1", group: "g", process: "p2", token: 2},
			{id: "b", body: "fine 2", group: "g", process: "p1", token: 1},
			{id: "e", body: "plain 5", group: "g", process: "p1", token: 1},
			{id: "e", body: "plain 5", group: "g", process: "p2", token: 2},
		},
		archived: map[string][]filed{"bad 3": {{id: "c", published: true, attempts: 1}}},
		dead:     map[string]int{"bad 3": 1},
		hasCalls: func(body string) bool { return body == "fine 1" },
		calls: map[string][]call{"fine 1": {
			{plan.CallMade, "kc", "charge", "c1", "p1", 1}, {plan.CallReturned, "kc", "charge", "c1", "p1", 1},
			{plan.CallMade, "ks", "ship", "s1", "p1", 1}, {plan.CallReturned, "kc", "charge", "c1", "p2", 2},
			{plan.CallMade, "ks", "ship", "s2", "p2", 2}, {plan.CallReturned, "ks", "ship", "s2", "p2", 2},
		}},
	}
}

// The oracle finds each thing that may go wrong. One that finds nothing would pass every storm.
func TestOracleFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	if v := sound(); true {
		if v.judge(); len(v.wrong) > 0 {
			t.Errorf("of an arm in which all is well it says %v", v.wrong)
		}
		if v.tally != (tally{fine: 3, plain: 1, repeated: 1, doomed: 1, stepped: 1, givenBack: 1}) {
			t.Errorf("it counts %+v", v.tally)
		}
	}
	for want, breaks := range map[string]func(*verdict){
		"does not say":         func(v *verdict) { v.held = map[string]bool{"b": true, "e": true} },
		"lost":                 func(v *verdict) { v.effects = v.effects[:1] },
		"began 0 times":        func(v *verdict) { v.effects[3].token = 3 },
		"began 1 times":        func(v *verdict) { v.effects[3] = v.effects[2] },
		"done after e":         func(v *verdict) { v.effects[1], v.effects[2] = v.effects[2], v.effects[1] },
		"2 effects":            func(v *verdict) { v.effects = append(v.effects, v.effects[1]) },
		"2 archive rows":       func(v *verdict) { v.archived["bad 3"] = append(v.archived["bad 3"], filed{id: "c"}) },
		"done, and archived":   func(v *verdict) { v.archived["fine 1"] = []filed{{id: "a"}} },
		"cannot succeed":       func(v *verdict) { v.archived, v.effects[1].body = nil, "bad 3" },
		"archived after":       func(v *verdict) { v.effects, v.archived["fine 2"] = v.effects[:1], []filed{{id: "b", crashes: 4}} },
		"never sent":           func(v *verdict) { v.sent = v.sent[1:] },
		"both ran it":          func(v *verdict) { v.begins["fine 2"] = append(v.begins["fine 2"], begin{"p2", 1, 1}) },
		"but token 3 ran":      func(v *verdict) { v.begins["fine 2"] = append(v.begins["fine 2"], begin{"p2", 3, 2}) },
		"attempt 31 of 30":     func(v *verdict) { v.begins["bad 3"][0].attempt = 31 },
		"done after":           func(v *verdict) { slices.Reverse(v.effects) },
		"marked as sent":       func(v *verdict) { v.dead = nil },
		"that is not archived": func(v *verdict) { v.dead["bad 4"] = 1 },
		"ship never returned":  func(v *verdict) { v.calls["fine 1"] = v.calls["fine 1"][:5] },
		"under its token 2":    makes(call{plan.CallMade, "ks", "ship", "s3", "p2", 2}),
		"again under token 3":  makes(call{plan.CallMade, "kc", "charge", "c3", "p2", 3}),
		"two results":          makes(call{plan.CallReturned, "ks", "ship", "s1", "p1", 1}),
		"a result of no call":  makes(call{plan.CallReturned, "ks", "ship", "s9", "p1", 2}),
		"the child keys kc":    makes(call{plan.CallReturned, "k9", "charge", "c1", "p1", 1}),
		"has the child key of": func(v *verdict) { v.calls["fine 2"] = v.calls["fine 1"] },
		"it killed 6 processes": func(v *verdict) {
			v.sent[2], v.archived = "poison 3", map[string][]filed{"poison 3": {{id: "c"}}}
			v.begins["poison 3"] = slices.Repeat(v.begins["bad 3"], 6)
		},
	} {
		v := sound()
		breaks(v)
		v.judge()
		if !slices.ContainsFunc(v.wrong, func(w wrong) bool { return strings.Contains(w.text, want) }) {
			t.Errorf("it does not find %q, it says %v", want, v.wrong)
		}
	}
}

// makes adds a row of an outside call.
func makes(c call) func(*verdict) {
	return func(v *verdict) { v.calls["fine 1"] = append(v.calls["fine 1"], c) }
}

// What there may be a little of is bounded.
func TestOracleBounds(t *testing.T) {
	t.Parallel()
	for text, v := range map[string]*verdict{
		"":                          {tally: tally{spared: 6, doomed: 40, unsent: 13}},
		"that were to succeed":      {tally: tally{spared: 7}},
		"14 were not sent":          {tally: tally{doomed: 40, unsent: 14}},
		"of 0 dead letters 14 were": {tally: tally{unsent: 14}},
	} {
		said := ""
		v.bounds(1000, 0, 10, func(wrong string) { said += wrong })
		if text == "" && said != "" || !strings.Contains(said, text) {
			t.Errorf("of %+v it says %q, want %q", v.tally, said, text)
		}
	}
	for spared, want := range map[int]bool{16: false, 17: true} {
		said := false
		(&verdict{tally: tally{spared: spared}}).bounds(1000, 80, 0, func(string) { said = true })
		if said != want {
			t.Errorf("%d spared of 1000, with 80 kills: %t", spared, said)
		}
	}
}
