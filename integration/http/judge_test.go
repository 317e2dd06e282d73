package http_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ackledger/ackledger/integration/http/plan"
)

// effect is one of a path's.
type effect struct {
	id, answer, process string
	token               int64
}

// call is a row of plan.CallTable, of some path.
type call struct {
	event, child, step, id string
	token                  int64
}

// history is what clients were answered, and what was done, each by path.
type history struct {
	given   map[string][]answer
	effects map[string][]effect // of plan.Pay and plan.Outside
	calls   map[string][]call   // of plan.Calls
}

// tally is what a history shows to have happened, so that a storm that has tested nothing is told from one that has found nothing.
type tally struct {
	replays   int // answers that were marked as replays
	takenOver int // effects of plan.Pay under a later token than the first
	givenBack int // outside calls that an attempt has not made, since an earlier one has recorded them
}

// enough says which of what a storm is to test has not happened.
func (t tally) enough(wrong func(format string, args ...any)) {
	if t.replays == 0 {
		wrong("no answer was a replay: nothing is shown")
	}
	if t.takenOver < leastHit {
		wrong("%d payments were taken over, want %d: nothing is shown", t.takenOver, leastHit)
	}
	if t.givenBack == 0 {
		wrong("no outside call was given back: nothing is shown")
	}
}

// made is how often an outside call was made.
func (h *history) made(path, step string) (n int) {
	for _, c := range h.calls[path] {
		if c.step == step && c.event == plan.CallMade {
			n++
		}
	}
	return n
}

// judge returns all that is wrong.
func (h *history) judge() (t tally, wrong []error) {
	children := map[string]string{} // whose they are
	for path, given := range h.given {
		effects := h.effects[path]
		if calls := h.calls[path]; strings.HasPrefix(path, plan.Calls) {
			did, back, bad := judgeCalls(path, calls, children)
			if wrong = append(wrong, bad...); len(bad) == 0 {
				effects = []effect{did}
			}
			t.givenBack += back
		}
		wrong = append(wrong, judgeAnswers(path, given, effects)...)
		for _, a := range given {
			if a.replayed {
				t.replays++
			}
		}
		if strings.HasPrefix(path, plan.Pay) && len(effects) == 1 && effects[0].token > 1 {
			t.takenOver++
		}
	}
	for path := range h.effects {
		if len(h.given[path]) == 0 {
			wrong = append(wrong, fmt.Errorf("%s: it has an effect, and nobody has an answer", path))
		}
	}
	for path := range h.calls {
		if len(h.given[path]) == 0 {
			wrong = append(wrong, fmt.Errorf("%s: it has outside calls, and nobody has an answer", path))
		}
	}
	return t, wrong
}

// judgeAnswers compares the answers to one request with each other and with its effect.
func judgeAnswers(path string, given []answer, effects []effect) (wrong []error) {
	if len(effects) != 1 {
		return []error{fmt.Errorf("%s: answered %+v, and has %d effects: %+v", path, given[0], len(effects), effects)}
	}
	firsts := 0
	for _, a := range given {
		if !a.same(given[0]) {
			wrong = append(wrong, fmt.Errorf("%s: answers %+v and %+v", path, given[0], a))
		}
		if !a.replayed {
			firsts++
		}
	}
	if firsts > 1 {
		wrong = append(wrong, fmt.Errorf("%s: %d answers are not marked as replays, at most one is of the run", path, firsts))
	}
	if given[0].body != effects[0].answer {
		wrong = append(wrong, fmt.Errorf("%s: answered %+v, the effect is %+v", path, given[0], effects[0]))
	}
	if given[0].location != plan.Receipt(effects[0].id) {
		wrong = append(wrong, fmt.Errorf("%s: answered with the receipt %s, the effect is %s", path, given[0].location, effects[0].id))
	}
	return wrong
}

// judgeCalls is what the outside calls of one request come to, and how many of them were given back from the ledger. It enters their child
// keys.
func judgeCalls(path string, calls []call, children map[string]string) (did effect, givenBack int, wrong []error) {
	var ids []string
	for _, step := range plan.OutsideCalls {
		of := slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return c.step != step })
		for _, c := range of {
			whose := path + " " + step
			if known, is := children[c.child]; is && known != whose {
				wrong = append(wrong, fmt.Errorf("%s has the child key of %s", whose, known))
			}
			children[c.child] = whose
		}
		id, back, err := judgeStep(of)
		if givenBack += back; err != nil {
			wrong = append(wrong, fmt.Errorf("%s: step %s: %w: %+v", path, step, err, of))
		}
		ids = append(ids, id)
	}
	return effect{id: ids[0], answer: strings.Join(ids, " ")}, givenBack, wrong
}

// judgeStep is the id that one step was recorded with. Tokens say what is wrong, and not the order of rows: that a step was returned is noted
// after it was recorded, and a process that was stopped in between notes it late. A call may be made under several tokens, of which the last
// is the one that is recorded; a call under a later one is made again, or else a stale token has recorded.
func judgeStep(rows []call) (id string, givenBack int, err error) {
	made := map[int64]string{} // ids by token
	var returned []call
	last := int64(0) // token with which the call was made
	for _, c := range rows {
		if c.child != rows[0].child {
			return "", 0, fmt.Errorf("has the child keys %s and %s", rows[0].child, c.child)
		}
		if c.event == plan.CallReturned {
			returned = append(returned, c)
			continue
		}
		if _, again := made[c.token]; again {
			return "", 0, fmt.Errorf("made twice under token %d", c.token)
		}
		made[c.token], last = c.id, max(last, c.token)
	}
	if len(returned) == 0 {
		return "", 0, errors.New("never returned to its handler")
	}
	id = returned[0].id
	for _, r := range returned {
		_, is := made[r.token]
		switch {
		case r.id != id:
			return "", 0, fmt.Errorf("returned with %s and with %s", id, r.id)
		case r.token < last:
			return "", 0, fmt.Errorf("recorded under token %d at the latest, and made under token %d", r.token, last)
		case !is:
			givenBack++
		}
	}
	if made[last] != id {
		return "", 0, fmt.Errorf("returned with %s, the last call was made with %q", id, made[last])
	}
	return id, givenBack, nil
}
