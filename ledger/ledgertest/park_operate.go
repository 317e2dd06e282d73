package ledgertest

import (
	"context"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

var parkOperateCases = []testCase{
	{"Listed", parkListed},
	{"Shown", parkShown},
	{"NotStuck", parkNotStuck},
	{"RunNow", parkRunNow},
	{"Drop", parkDrop},
	{"LeftAlone", parkLeftAlone},
	{"Refused", parkRefused},
	{"LaneRunNow", laneRunNow},
	{"LaneListed", laneListed},
	{"LanesDropped", lanesDropped},
}

// RunParkedOperate is the suite of what operators see of parked messages, and do to them.
func RunParkedOperate(t *testing.T, open Open) {
	for name, open := range map[string]Open{"Rows": open, "Ranges": Ranged(open)} {
		for _, c := range parkOperateCases {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				c.run(begin(t, open))
			})
		}
	}
}

// Pitfall227 is a fault: what an operator dropped was dropped without its body, or ran once more.
func Pitfall227(t *testing.T, open Open) { parkDrop(begin(t, open)) }

// Pitfall280 is a fault: an operator dropped all that is parked, and was told that nothing is left, while a part of what was behind in
// lanes stayed and ran.
func Pitfall280(t *testing.T, open Open) { lanesDropped(begin(t, open)) }

func (e *env) parkingOp() ledger.ParkingOperator {
	e.Helper()
	p, ok := e.Ledger.(ledger.ParkingOperator)
	if !ok {
		e.Fatalf("%T is no ParkingOperator", e.Ledger)
	}
	return p
}

func (e *env) listParked(f ledger.Filter) (all []ledger.ParkedMessage) {
	e.Helper()
	f.Scope = e.scope
	for m, err := range e.parkingOp().ParkedMessages(e.ctx, f) {
		if err != nil {
			e.Fatalf("list: %v", err)
		}
		all = append(all, m)
	}
	return all
}

func (e *env) changeParked(r ledger.ParkedRequest) ledger.ParkedReport {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, time.Minute) // a call without a deadline has ten seconds, which a machine that stalls takes
	defer cancel()
	r.Filter.Scope, r.By = e.scope, by
	report, err := e.parkingOp().ChangeParked(ctx, r)
	if err != nil {
		e.Fatalf("%s: %v", r.Action, err)
	}
	return report
}

// parkNotStuck: what is parked and due waits for the ledger's own copy, which is there.
func parkNotStuck(e *env) {
	o, m, other := e.owner(), e.entry("parked"), e.entry("stuck")
	s := failedAttempt(e.want(o, other, ledger.Run), "not yet")
	s.After = time.Millisecond
	e.holds(o, s)
	e.holds(o, park(e.want(o, m, ledger.Run), m, time.Millisecond))
	e.pass(10 * time.Millisecond)
	for _, f := range []ledger.Filter{{Stuck: true}, {Stuck: true, IDs: [][]byte{m.Key.ID, other.Key.ID}}} {
		if ids := e.messages(f); ids != string(other.Key.ID) {
			e.Errorf("stuck are %q", ids)
		}
	}
}

// parkListed: a list has those first that are due first, with their messages, and a filter selects.
func parkListed(e *env) {
	o, entries := e.owner(), e.entries(3)
	tokens := make([]uint64, len(entries))
	for i, m := range entries {
		c := e.want(o, m, ledger.Run)
		s := park(c, m, time.Duration(3-i)*time.Hour)
		tokens[i] = c.Token
		s.Dead.Group = "g" + number(i)
		e.holds(o, s)
	}
	all := e.listParked(ledger.Filter{})
	if len(all) != 3 {
		e.Fatalf("%d are listed", len(all))
	}
	for i := range all {
		m := &all[i]
		if want := entries[2-i]; m.Key.Sum() != want.Key.Sum() || m.Body != nil || m.BodyBytes == 0 || m.Status.State != ledger.Pending ||
			m.Status.Token != tokens[2-i] || m.Attempts != 1 || len(m.Errors) != 1 || m.At.IsZero() || m.Status.Holder != ledger.Nobody ||
			m.Status.DueIn < time.Duration(i+1)*time.Hour-time.Minute || m.Status.DueIn > time.Duration(i+1)*time.Hour {
			e.Fatalf("%d: %+v", i, m)
		}
	}
	for what, f := range map[string]ledger.Filter{
		"id": {IDs: [][]byte{entries[1].Key.ID}}, "group": {Group: "g" + number(1)}, "error": {Error: "later", IDs: [][]byte{entries[1].Key.ID}},
	} {
		if some := e.listParked(f); len(some) != 1 || some[0].Key.Sum() != entries[1].Key.Sum() {
			e.Errorf("by %s: %d", what, len(some))
		}
	}
	if some := e.listParked(ledger.Filter{Limit: 2, Body: true}); len(some) != 2 || string(some[0].Body) != "body of "+string(entries[2].Delivery) {
		e.Errorf("with bodies: %+v", some)
	}
	if some := e.listParked(ledger.Filter{To: all[0].At.Add(-time.Hour)}); len(some) != 0 {
		e.Errorf("before all: %d", len(some))
	}
	counts, err := e.parkingOp().CountParked(e.ctx)
	if s := counts[e.scope]; err != nil || s.Messages != 3 || s.Bytes <= 0 || s.Overdue != 0 {
		e.Errorf("%+v, %v", s, err)
	}
}

// parkShown: the message is shown whole, and not once it has ended.
func parkShown(e *env) {
	o, m := e.owner(), e.entry("m")
	e.parked(o, m, soon)
	if r := e.record(m); r.Parked == nil || string(r.Parked.Body) != "body of m#1" || string(r.Parked.Delivery) != "m#1" {
		e.Fatalf("%+v", r.Parked)
	}
	brief, err := e.op().Get(ledger.WithoutBodies(e.ctx), m.Key)
	if err != nil || brief.Parked == nil || brief.Parked.Body != nil || brief.Parked.BodyBytes != len("body of m#1") {
		e.Fatalf("%+v, %v", brief.Parked, err)
	}
	e.untilDue(1, time.Hour)
	e.holds(o, succeed(e.want(o, fromCare(m), ledger.Run)))
	if r := e.record(m); r.Parked != nil {
		e.Fatalf("%+v", r.Parked)
	}
}

// parkRunNow: what an operator hastens is due at once, whole, and audited.
func parkRunNow(e *env) {
	o, m, other := e.owner(), e.entry("m"), e.entry("other")
	e.parked(o, m, time.Hour)
	e.parked(o, other, time.Hour)
	r := ledger.ParkedRequest{Action: ledger.ActionRunNow, Filter: ledger.Filter{IDs: [][]byte{m.Key.ID}}, DryRun: true}
	if rep := e.changeParked(r); rep.Matched != 1 || rep.Changed != 0 {
		e.Fatalf("dry run: %+v", rep)
	}
	if reply := e.due(time.Hour); len(reply.Messages) != 0 {
		e.Fatal("a dry run has made it due")
	}
	r.DryRun = false
	if rep := e.changeParked(r); rep.Matched != 1 || rep.Changed != 1 || rep.Left != 0 {
		e.Fatalf("%+v", rep)
	}
	list := e.untilDue(1, time.Hour)
	if string(list[0].Body) != "body of m#1" {
		e.Fatalf("%q", list[0].Body)
	}
	e.want(o, m, ledger.InCare)
	c := e.want(o, fromCare(m), ledger.Run)
	if c.Token != 2 || c.Attempt != 2 {
		e.Fatalf("%+v", c)
	}
	e.holds(o, succeed(c))
	e.wantParked(1)
	if notes := e.audits(); len(notes) != 1 || notes[0].Action != ledger.ActionRunNow || notes[0].Token != 1 || string(notes[0].Delivery) != "m#1" {
		e.Errorf("%+v", notes)
	}
}

// parkDrop: what an operator drops is a dead letter, whole, and runs no more.
func parkDrop(e *env) {
	o, m := e.owner(), e.entry("m")
	e.parked(o, m, time.Hour)
	if rep := e.changeParked(ledger.ParkedRequest{Action: ledger.ActionDrop}); rep.Matched != 1 || rep.Changed != 1 {
		e.Fatalf("%+v", rep)
	}
	e.wantParked(0)
	r := e.record(m)
	if r.State != ledger.Failed || r.Parked != nil || len(r.Archived) != 1 || r.Token != 1 {
		e.Fatalf("%s, %+v", summary(r), r.Archived)
	}
	a := r.Archived[0]
	if a.Kind != ledger.KindDropped || string(a.Body) != "body of m#1" || string(a.Delivery) != "m#1" || a.Attempts != 1 || len(a.Errors) != 1 ||
		a.Sent || a.Token != 1 || a.Expiry.Sub(a.At) < keep-time.Second {
		e.Errorf("%+v", a)
	}
	e.want(o, m, ledger.Done)
	e.want(o, fromCare(m), ledger.Done)
	if d := e.letters(ledger.Filter{Kinds: []ledger.FailureKind{ledger.KindDropped}}); len(d) != 1 {
		e.Errorf("%d letters", len(d))
	}
	if notes := e.audits(); len(notes) != 1 || notes[0].Action != ledger.ActionDrop || notes[0].State != ledger.Pending {
		e.Errorf("%+v", notes)
	}
	if rep := e.changeParked(ledger.ParkedRequest{Action: ledger.ActionDrop}); rep.Matched != 0 {
		e.Errorf("once more: %+v", rep)
	}
}

// lanesDropped: an operator drops all of many lanes. With each first one that goes the next one moves to another place of the list.
func lanesDropped(e *env) {
	const lanes, more = 260, 260 // together more than stores list, and write, at once
	o, list := e.owner(), e.entries(lanes+more)
	claims := e.claimAll(o, list)
	parks := make([]ledger.Settlement, len(list))
	for i, m := range list {
		parks[i] = inLane(claims[i], m, "lane"+number(i%lanes), int64(i), time.Hour)
	}
	for i, err := range e.settleAll(o, parks) {
		if err != nil {
			e.Fatalf("%d: %v", i, err)
		}
	}
	some := ledger.ParkedRequest{Action: ledger.ActionDrop, Filter: ledger.Filter{Limit: 10}}
	if rep := e.changeParked(some); rep != (ledger.ParkedReport{Matched: 10, Changed: 10}) {
		e.Fatalf("ten: %+v", rep)
	}
	all := int64(len(list) - 10)
	e.wantParked(all)
	last := ledger.ParkedReport{}
	rep := e.changeParked(ledger.ParkedRequest{Action: ledger.ActionDrop, Progress: func(r ledger.ParkedReport) { last = r }})
	if rep != (ledger.ParkedReport{Matched: all, Changed: all}) || last != rep {
		e.Errorf("%+v, at last %+v; want all %d", rep, last, all)
	}
	e.wantParked(0)
}

// parkLeftAlone: what a live worker has is left, what a dead one had is not, and its crash counts.
func parkLeftAlone(e *env) {
	o, m := e.owner(), e.entry("m")
	e.parked(o, m, soon)
	e.untilDue(1, soon)
	dies := e.owner()
	e.want(dies, fromCare(m), ledger.Run)
	for _, action := range []ledger.Action{ledger.ActionRunNow, ledger.ActionDrop} {
		if rep := e.changeParked(ledger.ParkedRequest{Action: action}); rep.Matched != 1 || rep.Left != 1 || rep.Changed != 0 {
			e.Fatalf("%s of what runs: %+v", action, rep)
		}
	}
	e.declare(dies)
	if rep := e.changeParked(ledger.ParkedRequest{Action: ledger.ActionRunNow}); rep.Changed != 1 {
		e.Fatalf("%+v", rep)
	}
	e.untilDue(1, time.Hour)
	if c := e.want(o, fromCare(m), ledger.Run); c.Crashes != 1 || !c.TookOver || c.Token != 3 {
		e.Fatalf("%+v", c)
	}
}

// parkRefused: what cannot be meant is refused.
func parkRefused(e *env) {
	for field, r := range map[string]ledger.ParkedRequest{
		"ParkedRequest.Action": {Action: ledger.ActionPurge, By: by},
		"Filter.Kinds":         {Action: ledger.ActionDrop, By: by, Filter: ledger.Filter{Kinds: []ledger.FailureKind{ledger.KindError}}},
		"Filter.State":         {Action: ledger.ActionDrop, By: by, Filter: ledger.Filter{State: ledger.Failed}},
		"By.Actor":             {Action: ledger.ActionDrop},
	} {
		_, err := e.parkingOp().ChangeParked(e.ctx, r)
		e.invalid(err, field)
	}
}
