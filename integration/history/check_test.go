package history_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/ackledger/ackledger/ledger"
)

// record is one history with what it came from.
type record struct {
	plan plan
	ops  []*op
	site *site
}

// patience is how long one message's part of a history may take to be decided. Hardly one takes a second; of calls that a busy machine
// left unanswered there are more orders.
const patience = 2 * time.Minute

// deciding leaves a processor to the histories that are made beside the checks, whose servers end sessions that say nothing for long.
var deciding = make(chan struct{}, max(runtime.GOMAXPROCS(0)-1, 1))

// verdict is what is wrong with a history. The zero value: nothing.
type verdict struct {
	part  []*op
	info  porcupine.LinearizationInfo
	model porcupine.Model
}

// check decides a history, message by message and owner by owner. It returns how many could not be decided in time.
func (r *record) check() (wrong *verdict, undecided int) {
	model := (&model{ranged: r.plan.Ranged, snapshots: r.site.snapshots, watched: r.site.watched}).porcupine()
	r.contention()
	for _, part := range r.parts() {
		history := make([]porcupine.Operation, len(part))
		for i, o := range part {
			history[i] = porcupine.Operation{ClientId: o.Client, Input: o, Call: o.Call, Return: o.Return}
		}
		deciding <- struct{}{}
		result, info := porcupine.CheckOperationsVerbose(model, history, patience)
		<-deciding
		switch result {
		case porcupine.Illegal:
			return &verdict{part: part, info: info, model: model}, undecided
		case porcupine.Unknown:
			undecided++
		}
	}
	return nil, undecided
}

// parts cuts the history: one part a message, with the lives of the owners that have to do with it, and one part an owner.
func (r *record) parts() [][]*op {
	var parts [][]*op
	owners := map[string]bool{}
	for key := range r.plan.Keys {
		mine := map[string]int{}
		for _, o := range r.ops {
			if o.Key == key && !o.Void && o.Owner != "" {
				number(mine, o.Owner)
				owners[o.Owner] = true
			}
		}
		parts = append(parts, r.part(mine, key))
	}
	for owner := range owners {
		parts = append(parts, r.part(map[string]int{owner: 0}, allKeys))
	}
	return parts
}

func number(of map[string]int, owner string) int {
	if _, there := of[owner]; !there {
		of[owner] = len(of)
	}
	return of[owner]
}

// part is the calls for one message, and those about these owners.
func (r *record) part(owners map[string]int, key int) []*op {
	var part []*op
	for _, o := range r.ops {
		n, mine := owners[o.Owner]
		if o.Void || o.Key != allKeys && o.Key != key || o.Key == allKeys && !mine {
			continue
		}
		c := *o
		c.owner, c.from = n, nobody
		if from, there := owners[o.From]; there {
			c.from = from
		}
		if o.Row != nil {
			v := *o.Row
			v.holder = nobody
			if v.Owner != "" {
				v.holder = number(owners, v.Owner) // one that nobody knows is no holder
			}
			c.Row = &v
		}
		part = append(part, &c)
		if r.site.pieces && o.Kind == doClaim && o.Lost {
			lost := c
			lost.Kind, lost.Key = doBeat, allKeys
			c.Lost, c.partial = false, true
			part = append(part, &lost)
		}
		if r.site.watched && o.Kind == doLeave && !o.unknown() { // asked to leave it claims nothing any more, before others see it left
			asked := c
			asked.Return = never
			part = append(part, &asked)
		}
	}
	return append(part, end(part))
}

// end comes when all calls that were answered are over.
func end(part []*op) *op {
	e := &op{Client: lastClient, Kind: theEnd, Key: allKeys, Return: never}
	for _, o := range part {
		if !o.unknown() {
			e.Call = max(e.Call, o.Return+1)
		}
	}
	return e
}

// contention marks the claims and other calls during which something else may have held their rows locked, settlements that
// repeat others, claims during which messages are reopened, and reopens during which mismatches are archived. A call whose answer is not
// known may hold them at any later time.
func (r *record) contention() {
	for _, o := range r.ops {
		o.leaving = r.site.watched && slices.ContainsFunc(r.ops, func(p *op) bool {
			return p.Kind == doLeave && p.Void && p.Owner == o.Owner && p.Call <= o.Return && p.Return >= o.Call
		})
		if o.Key == allKeys {
			continue
		}
		if r.site.busy {
			took := o.Return - o.Call
			o.contended = took >= o.Limit*4/5 || r.site.pieces && took >= int64(time.Second) // it gives up a little before, or others wait
		}
		for _, p := range r.ops {
			if p == o || p.Call > o.Return {
				continue
			}
			together := p.Client == o.Client && p.Call == o.Call // one batch
			same := p.Key == o.Key || r.plan.Ranged
			if r.site.locks && p.locks() && same && p.Return >= o.Call && !together {
				o.contended = true
			}
			o.mixed = o.mixed || o.Kind == doClaim && p.Key == o.Key && p.Kind == doReopen && p.Return >= o.Call
			if o.Kind == doReopen && p.Key == o.Key && p.Kind == doSettle && p.Mismatch && p.Return >= o.Call {
				o.filed |= 1 << p.Delivery
			}
			o.repeated = o.repeated || p.Key == o.Key && r.remembered(o, p)
		}
	}
}

// remembered says whether the owner of a range may go by what the ticket of o was settled as by p. A range keeps neither the
// tokens of what succeeded, nor anything of what was given back; so its owner answers repetitions from its memory, also
// once an operator has reopened the message.
func (r *record) remembered(o, p *op) bool {
	if o.Kind != doSettle || p.Kind != doSettle || p.Token != o.Token || p.Lost || p.Void {
		return false
	}
	if p.Settle == ledger.Release {
		return o.Settle == ledger.Release
	}
	return slices.ContainsFunc(r.ops, func(q *op) bool { return q.Kind == doReopen && q.Key == o.Key && q.Call < o.Return })
}

// report tells all that is known of a history that no order of its calls explains.
func (r *record) report(t *testing.T, wrong *verdict) {
	t.Helper()
	path := filepath.Join(t.ArtifactDir(), fmt.Sprintf("%s-%d.html", strings.ReplaceAll(r.site.name, " ", "-"), r.plan.Number))
	if err := porcupine.VisualizePath(wrong.model, wrong.info, path); err != nil {
		path = err.Error()
	}
	t.Errorf("%s: no order of these calls is allowed by the claim table (seed %d, history %d; drawn in %s):\n%s",
		r.site.name, r.plan.Seed, r.plan.Number, path, text(wrong.part, wrong.info))
	if r.plan.Ranged {
		t.Logf("all calls of that log:\n%s", text(r.ops, porcupine.LinearizationInfo{}))
	}
}

// text lists calls by their begin, in microseconds; * marks those of the longest beginning that can be explained.
func text(part []*op, info porcupine.LinearizationInfo) string {
	explained := map[*op]bool{}
	for _, partial := range info.PartialLinearizationsOperations() {
		longest := slices.MaxFunc(append(partial, nil), func(a, b []porcupine.Operation) int { return len(a) - len(b) })
		for _, o := range longest {
			explained[o.Input.(*op)] = true
		}
	}
	slices.SortStableFunc(part, func(a, b *op) int { return int(min(max(a.Call-b.Call, -1), 1)) })
	var b strings.Builder
	for _, o := range part {
		end := "    never"
		if !o.unknown() {
			end = fmt.Sprintf("%9d", (o.Return-part[0].Call)/1000)
		}
		mark := " "
		if explained[o] {
			mark = "*"
		}
		fmt.Fprintf(&b, "%s %9d %s  %s", mark, (o.Call-part[0].Call)/1000, end, o)
		note(&b, o.contended, " (contended)")
		note(&b, o.Limit < int64(100*time.Millisecond), " (limit %v)", time.Duration(o.Limit))
		b.WriteByte('\n')
	}
	return b.String()
}
