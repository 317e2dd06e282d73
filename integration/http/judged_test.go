package http_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ackledger/ackledger/integration/http/plan"
)

// The paths of a sound history.
const (
	paid    = plan.Pay + "p"
	charged = plan.Outside + "o"
	called  = plan.Calls + "c"
)

// sound is a history in which all is well. The payment was taken over. Of the calls' attempts the first has made a charge that was not
// recorded, the second has recorded one, and shipped in vain, and the third has shipped.
func sound() *history {
	answers := func(body, id string) []answer {
		a := answer{body: body, location: plan.Receipt(id), kind: "text/x-receipt"}
		again := a
		again.replayed = true
		return []answer{again, a, again}
	}
	return &history{
		given: map[string][]answer{paid: answers("paid", "1"), charged: answers("charged", "2"), called: answers("c2 s3", "c2")},
		effects: map[string][]effect{
			paid: {{id: "1", answer: "paid", process: "server-2", token: 2}}, charged: {{id: "2", answer: "charged"}},
		},
		calls: map[string][]call{called: {
			{plan.CallMade, "kc", "charge", "c1", 1},
			{plan.CallMade, "kc", "charge", "c2", 2},
			{plan.CallReturned, "kc", "charge", "c2", 2},
			{plan.CallMade, "ks", "ship", "s2", 2},
			{plan.CallReturned, "kc", "charge", "c2", 3},
			{plan.CallMade, "ks", "ship", "s3", 3},
			{plan.CallReturned, "ks", "ship", "s3", 3},
		}},
	}
}

func TestJudgeOfASoundHistory(t *testing.T) {
	t.Parallel()
	found, wrong := sound().judge()
	if len(wrong) > 0 {
		t.Errorf("it finds %v", wrong)
	}
	if found != (tally{replays: 6, takenOver: 1, givenBack: 1}) {
		t.Errorf("it counts %+v", found)
	}
}

// The judge finds each thing that may go wrong. One that finds nothing would pass every storm.
func TestJudgeFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		want   string
		breaks func(h *history)
	}{
		"a lost payment":        {"has 0 effects", func(h *history) { delete(h.effects, paid) }},
		"a lost charge":         {"has 0 effects", func(h *history) { delete(h.effects, charged) }},
		"all calls lost":        {"never returned to its handler", func(h *history) { delete(h.calls, called) }},
		"one call lost":         {"step ship: never returned", func(h *history) { h.calls[called] = h.calls[called][:6] }},
		"paid twice":            {"has 2 effects", func(h *history) { h.effects[paid] = append(h.effects[paid], effect{id: "1", answer: "paid"}) }},
		"charged twice":         {"has 2 effects", func(h *history) { h.effects[charged] = append(h.effects[charged], effect{id: "9"}) }},
		"another body":          {"answers {body:paid", func(h *history) { h.given[paid][2].body = "paid again" }},
		"another location":      {"answers {body:paid", func(h *history) { h.given[paid][2].location = "/receipts/9" }},
		"another media type":    {"answers {body:paid", func(h *history) { h.given[paid][2].kind = "text/plain" }},
		"answers of no effect":  {"the effect is {id:2", func(h *history) { all(h.given[charged], func(a *answer) { a.body = "free" }) }},
		"answers of no call":    {"the effect is {id:c2", func(h *history) { all(h.given[called], func(a *answer) { a.body = "c1 s3" }) }},
		"a receipt for nothing": {"receipt /receipts/9, the effect is 1", func(h *history) { all(h.given[paid], func(a *answer) { a.location = "/receipts/9" }) }},
		"a receipt of a call that was not recorded": {"receipt /receipts/c1, the effect is c2", func(h *history) {
			all(h.given[called], func(a *answer) { a.location = "/receipts/c1" })
		}},
		"two first answers":             {"2 answers are not marked", func(h *history) { h.given[paid][0].replayed = false }},
		"an effect that nobody knows":   {"it has an effect, and nobody", func(h *history) { delete(h.given, paid) }},
		"calls that nobody knows":       {"it has outside calls, and nobody", func(h *history) { delete(h.given, called) }},
		"a recorded call is made again": {"recorded under token 2 at the latest, and made under token 3", makes(call{plan.CallMade, "kc", "charge", "c3", 3})},
		"a call is made twice":          {"made twice under token 3", makes(call{plan.CallMade, "ks", "ship", "s3", 3})},
		"a stale token records":         {"returned with c2 and with c1", makes(call{plan.CallReturned, "kc", "charge", "c1", 1})},
		"a stale token records what the newer one got": {"recorded under token 1 at the latest, and made under token 2",
			makes(call{plan.CallReturned, "kc", "charge", "c2", 1})},
		"given back what was never recorded": {"the last call was made with \"c2\"", func(h *history) {
			for _, n := range []int{2, 4} {
				h.calls[called][n].id = "c1"
			}
		}},
		"a step with two child keys": {"has the child keys ks and k9", func(h *history) { h.calls[called][5].child = "k9" }},
		"two steps with one child key": {"c ship has the child key of /calls/c charge", func(h *history) {
			for _, n := range []int{3, 5, 6} {
				h.calls[called][n].child = "kc"
			}
		}},
		"two requests with a child key": {"has the child key of", makesElsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := sound()
			c.breaks(h)
			if _, wrong := h.judge(); !strings.Contains(fmt.Sprint(errors.Join(wrong...)), c.want) {
				t.Errorf("it does not find %q, it says %v", c.want, wrong)
			}
		})
	}
}

func all(given []answer, change func(*answer)) {
	for n := range given {
		change(&given[n])
	}
}

// makes adds a row.
func makes(c call) func(*history) {
	return func(h *history) { h.calls[called] = append(h.calls[called], c) }
}

// makesElsewhere has another request whose rows are the same.
func makesElsewhere(h *history) {
	h.given[called+"2"], h.calls[called+"2"] = h.given[called], h.calls[called]
}

// A storm that has tested nothing has failed.
func TestJudgeOfACalm(t *testing.T) {
	t.Parallel()
	for want, found := range map[string]tally{
		"":                               {replays: 1, takenOver: leastHit, givenBack: 1},
		"no answer was a replay":         {takenOver: leastHit, givenBack: 1},
		"1 payments were taken over":     {replays: 1, takenOver: leastHit - 1, givenBack: 1},
		"no outside call was given back": {replays: 1, takenOver: leastHit},
	} {
		said := ""
		found.enough(func(format string, args ...any) { said += fmt.Sprintf(format, args...) })
		if want == "" && said != "" || !strings.Contains(said, want) {
			t.Errorf("of %+v it says %q, want %q", found, said, want)
		}
	}
}
