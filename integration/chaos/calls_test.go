package chaos_test

import (
	"context"

	"github.com/ackledger/ackledger/integration/chaos/plan"
)

// call is a row of callTable, of some message.
type call struct {
	event, child, step, id, process string
	token                           uint64
}

// readCalls reads the outside calls of an arm, by body, in their order.
func readCalls(ctx context.Context, d *database) (map[string][]call, error) {
	calls := map[string][]call{}
	var body string
	var c call
	return calls, d.rows(ctx, `SELECT body, event, child, step, id, process, token FROM outside_call ORDER BY seq`,
		func() { calls[body] = append(calls[body], c) }, &body, &c.event, &c.child, &c.step, &c.id, &c.process, &c.token)
}

// called says that no outside call was made again once its step was recorded, that all attempts got what was recorded, that no two calls
// have one child key, and that what is done has made all its calls.
func (v *verdict) called() {
	children := map[string]string{} // whose they are
	for body, calls := range v.calls {
		steps := map[string][]call{}
		for _, c := range calls {
			whose := body + " " + c.step
			if known, is := children[c.child]; is && known != whose {
				v.fail(body, "%s has the child key of %s", whose, known)
			}
			children[c.child] = whose
			steps[c.step] = append(steps[c.step], c)
		}
		for _, rows := range steps {
			v.recorded(body, rows)
		}
	}
	for body := range v.done {
		if !v.hasCalls(body) {
			continue
		}
		v.stepped++
		for _, step := range plan.Calls {
			if !returns(v.calls[body], step) {
				v.fail(body, "it is done, and its outside call %s never returned: %+v", step, v.calls[body])
			}
		}
	}
}

func returns(calls []call, step string) bool {
	for _, c := range calls {
		if c.step == step && c.event == plan.CallReturned {
			return true
		}
	}
	return false
}

// recorded judges the rows of one step. A call under a token above one that has returned is made again; so is one under the same token after
// that return, for a message of a batch that was spoiled is handled twice under one. A call under a lower token may be late: its process has
// lost the message, and records nothing.
func (v *verdict) recorded(body string, rows []call) {
	var first *call // of those that returned, the one with the lowest token
	made := map[string]uint64{}
	for i, c := range rows {
		if c.child != rows[0].child {
			v.fail(body, "step %s has the child keys %s and %s", c.step, rows[0].child, c.child)
		}
		if c.event == plan.CallMade {
			if made[c.id] = c.token; first != nil && c.token == first.token {
				v.fail(body, "step %s was recorded, and made again under its token %d: %+v", c.step, c.token, rows)
			}
			continue
		}
		token, is := made[c.id]
		switch {
		case !is:
			v.fail(body, "step %s returned with a result of no call: %+v", c.step, rows)
		case token != c.token:
			v.givenBack++
		}
		if first != nil && c.id != first.id {
			v.fail(body, "step %s returned with two results: %+v", c.step, rows)
		}
		if first == nil || c.token < first.token {
			first = &rows[i]
		}
	}
	for _, c := range rows {
		if c.event == plan.CallMade && first != nil && c.token > first.token {
			v.fail(body, "step %s was recorded under token %d, and made again under token %d: %+v", c.step, first.token, c.token, rows)
		}
	}
}
