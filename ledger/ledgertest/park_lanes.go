package ledgertest

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// laneCases are the rules of messages that are parked in lanes.
var laneCases = []testCase{
	{"OneAfterTheOther", laneInTurn},
	{"PlacesDecide", lanePlaces},
	{"PlacesGivenOut", laneLast},
	{"LaneInOneCall", laneInOneCall},
	{"LaneGivenBack", laneGivenBack},
	{"EveryEnd", laneEnds},
	{"Counted", laneCounted},
	{"LaneOutlives", laneOutlives},
	{"ManyAtOnce", laneStorm},
}

// Pitfall252 is a fault: the first of a lane ended, and the next one stayed parked for good.
func Pitfall252(t *testing.T, open Open) { laneEnds(begin(t, open)) }

// Pitfall253 is a fault: what was parked in a lane came back in the order in which it was parked.
func Pitfall253(t *testing.T, open Open) { lanePlaces(begin(t, open)) }

// Pitfall260 is a fault: messages that were parked in a lane without places of their own were all its first.
func Pitfall260(t *testing.T, open Open) { laneLast(begin(t, open)) }

// inLane is park in a lane.
func inLane(c ledger.Claim, entry ledger.Entry, lane string, place int64, after time.Duration) ledger.Settlement {
	s := park(c, entry, after)
	s.Lane = &ledger.ParkLane{Name: []byte(lane), Place: place}
	return s
}

// lines claims messages, and parks them in a lane: the first for so long, and the others behind it.
func (e *env) lines(o ledger.Owner, lane string, entries []ledger.Entry, after time.Duration) {
	e.Helper()
	for i, m := range entries {
		e.holds(o, inLane(e.want(o, m, ledger.Run), m, lane, int64(10+i), after))
		after = time.Microsecond
	}
}

// isDue polls until a message is due alone, and claims it.
func (e *env) isDue(o ledger.Owner, m ledger.Entry) ledger.Claim {
	e.Helper()
	if p := e.untilDue(1, time.Hour)[0]; p.Key.Sum() != m.Key.Sum() {
		e.Fatalf("%v is due, want %v", p.Key, m.Key)
	}
	return e.want(o, fromCare(m), ledger.Run)
}

func (e *env) noneDue() {
	e.Helper()
	if reply := e.due(time.Hour); len(reply.Messages) != 0 {
		e.Fatalf("%v is due, and should not be", reply.Messages[0].Key)
	}
}

func (e *env) inLane(lane string) ledger.LaneStats {
	e.Helper()
	s, err := e.parking().ParkedLane(e.ctx, e.scope, []byte(lane))
	if err != nil {
		e.Fatal(err)
	}
	return s
}

// laneInTurn: of a lane one message is due at a time, the next once the one before it has ended, and no sooner. Other lanes, and what
// has none, go on meanwhile.
func laneInTurn(e *env) {
	o, list, others := e.owner(), e.entries(4), []ledger.Entry{e.entry("other"), e.entry("none")}
	e.lines(o, "lane", list, soon)
	c := e.isDue(o, list[0])
	e.holds(o, inLane(e.want(o, others[0], ledger.Run), others[0], "lane2", 1, time.Millisecond))
	e.holds(o, park(e.want(o, others[1], ledger.Run), others[1], time.Millisecond))
	e.untilDue(2, time.Hour)
	for i := 1; i < len(list); i++ {
		e.noneDue()
		e.holds(o, succeed(c))
		c = e.isDue(o, list[i])
	}
	e.holds(o, succeed(c))
	if s := e.inLane("lane"); s != (ledger.LaneStats{}) {
		e.Fatalf("%+v", s)
	}
	e.wantParked(2)
}

// lanePlaces: what comes first in a lane runs first, in whatever order it was parked.
func lanePlaces(e *env) {
	o, list := e.owner(), e.entries(5)
	for _, i := range []int{3, 1, 4, 0, 2} {
		e.holds(o, inLane(e.want(o, list[i], ledger.Run), list[i], "lane", int64(i), time.Microsecond))
	}
	hide := 2 * soon
	for _, m := range list {
		var first ledger.Parked
		e.eventually("the next one is due", func() bool {
			reply := e.due(hide)
			if len(reply.Messages) > 1 {
				e.Fatalf("%d messages of a lane are due", len(reply.Messages))
			}
			if len(reply.Messages) == 0 {
				return false
			}
			first = reply.Messages[0]
			return true
		})
		if first.Key.Sum() != m.Key.Sum() {
			e.Fatalf("%v is due, want %v", first.Key, m.Key)
		}
		e.holds(o, succeed(e.want(o, fromCare(m), ledger.Run)))
	}
	e.wantParked(0)
}

// laneLast: what has no place of its own gets the one behind all that are parked there, and runs in that order.
func laneLast(e *env) {
	o, list := e.owner(), e.entries(5)
	want := []int64{0, 7, 8, 9, 10}
	for i, m := range list {
		place := int64(ledger.PlaceLast)
		if i == 1 {
			place = want[i]
		}
		e.holds(o, inLane(e.want(o, m, ledger.Run), m, "lane", place, time.Microsecond))
	}
	for i, m := range list {
		p := e.untilDue(1, time.Hour)[0]
		if p.Key.Sum() != m.Key.Sum() || p.Lane == nil || p.Lane.Place != want[i] {
			e.Fatalf("%v is due at %+v, want %v at %d", p.Key, p.Lane, m.Key, want[i])
		}
		c := e.want(o, fromCare(m), ledger.Run)
		e.noneDue()
		e.holds(o, succeed(c))
	}
	e.wantParked(0)
}

// laneInOneCall: several of a lane in one call, as the first that is parked of it and behind others.
func laneInOneCall(e *env) {
	o, list := e.owner(), e.entries(6)
	for _, part := range [][]ledger.Entry{list[:3], list[3:]} {
		claims, sets := e.claimAll(o, part), make([]ledger.Settlement, len(part))
		for i, m := range part {
			place := int64(slices.IndexFunc(list, func(x ledger.Entry) bool { return x.Key.Sum() == m.Key.Sum() }))
			sets[len(part)-1-i] = inLane(claims[i], m, "lane", place, time.Microsecond)
		}
		for _, err := range e.settleAll(o, sets) {
			if err != nil {
				e.Fatal(err)
			}
		}
	}
	if s := e.inLane("lane"); s.Messages != len(list) || s.Wait != 0 {
		e.Fatalf("%+v", s)
	}
	for _, m := range list {
		var got []ledger.Parked
		e.eventually("the next one is due", func() bool {
			got = e.due(2 * soon).Messages
			return len(got) > 0
		})
		if len(got) != 1 || got[0].Key.Sum() != m.Key.Sum() {
			e.Fatalf("%v is due, of %d, want %v", got[0].Key, len(got), m.Key)
		}
		e.holds(o, succeed(e.want(o, fromCare(m), ledger.Run)))
	}
}

// laneGivenBack: what is given back stays the first of its lane, and so does what its owner dies with.
func laneGivenBack(e *env) {
	o, list := e.owner(), e.entries(2)
	e.lines(o, "lane", list, time.Microsecond)
	again := failedAttempt(e.isDue(o, list[0]), "once more")
	again.After = time.Second
	e.holds(o, again)
	e.noneDue()
	if s := e.inLane("lane"); s.Messages != 2 || s.Wait <= 0 || s.Wait > again.After {
		e.Fatalf("%+v", s)
	}
	e.isDue(o, list[0]) // and its owner dies
	e.noneDue()
	if s := e.inLane("lane"); s.Messages != 2 || s.Wait != 0 {
		e.Fatalf("while it runs: %+v", s)
	}
	e.declare(o)
	other := e.owner()
	c := e.want(other, fromCare(list[0]), ledger.Run)
	e.noneDue()
	e.holds(other, release(c))
	e.holds(other, succeed(e.isDue(other, list[0])))
	e.holds(other, succeed(e.isDue(other, list[1])))
	e.wantParked(0)
}

// laneEnds: the next one is due at once, whichever way the first ends.
func laneEnds(e *env) {
	ends := map[string]func(o ledger.Owner, m ledger.Entry){
		"succeeds": func(o ledger.Owner, m ledger.Entry) { e.holds(o, succeed(e.isDue(o, m))) },
		"fails":    func(o ledger.Owner, m ledger.Entry) { e.holds(o, fail(e.isDue(o, m), m)) },
		"with a result": func(o ledger.Owner, m ledger.Entry) {
			s := succeed(e.isDue(o, m))
			s.Result = []byte("r")
			e.holds(o, s)
		},
		"in a transaction": func(o ledger.Owner, m ledger.Entry) {
			c := e.isDue(o, m)
			if e.InTx == nil {
				e.holds(o, succeed(c))
				return
			}
			ctx, _ := e.attempt(o, c)
			if err := e.InTx(ctx, e.effect(m)); err != nil {
				e.Fatal(err)
			}
		},
	}
	for name, end := range ends {
		o, list := e.owner(), []ledger.Entry{e.entry(name + " 1"), e.entry(name + " 2"), e.entry(name + " 3")}
		e.lines(o, name, list, time.Microsecond)
		end(o, list[0])
		c := e.isDue(o, list[1])
		e.noneDue()
		e.holds(o, succeed(c))
		e.holds(o, succeed(e.isDue(o, list[2])))
		e.wantParked(0)
	}
}

// laneRunNow: what an operator has run now keeps its turn. One that is dropped behind others leaves them as they are, and with one that is
// dropped before others the next is due.
func laneRunNow(e *env) {
	o, list := e.owner(), e.entries(4)
	e.lines(o, "lane", list, time.Hour)
	e.noneDue()
	if r := e.changeParked(ledger.ParkedRequest{Action: ledger.ActionDrop, Filter: ledger.Filter{IDs: [][]byte{list[1].Key.ID}}}); r.Changed != 1 {
		e.Fatalf("%+v", r)
	}
	e.noneDue()
	if r := e.changeParked(ledger.ParkedRequest{Action: ledger.ActionRunNow}); r.Changed != 3 {
		e.Fatalf("%+v", r)
	}
	for _, i := range []int{0, 2} {
		c := e.isDue(o, list[i])
		e.noneDue()
		e.holds(o, succeed(c))
	}
	e.holds(o, succeed(e.isDue(o, list[3])))
	others := []ledger.Entry{e.entry("first"), e.entry("second")}
	e.lines(o, "another", others, time.Hour)
	if r := e.changeParked(ledger.ParkedRequest{Action: ledger.ActionDrop, Filter: ledger.Filter{IDs: [][]byte{others[0].Key.ID}}}); r.Changed != 1 {
		e.Fatalf("%+v", r)
	}
	e.holds(o, succeed(e.isDue(o, others[1])))
	e.wantParked(0)
}

// laneCounted: what a lane has, and which lanes there are.
func laneCounted(e *env) {
	o := e.owner()
	for _, name := range []string{"a/1", "a/2", "b/1", "a", "a/\xff"} {
		e.lines(o, name, []ledger.Entry{e.entry(name + " first"), e.entry(name + " second")}, time.Hour)
		if s := e.inLane(name); s.Messages != 2 || s.Wait < 59*time.Minute || s.Wait > time.Hour {
			e.Fatalf("%s: %+v", name, s)
		}
	}
	if s := e.inLane("none"); s != (ledger.LaneStats{}) {
		e.Fatalf("%+v", s)
	}
	for _, want := range []struct {
		prefix string
		most   int
		lanes  []string
		more   bool
	}{
		{"a/", 10, []string{"a/1", "a/2", "a/\xff"}, false}, {"a/", 3, []string{"a/1", "a/2", "a/\xff"}, false}, {"a/", 2, []string{"a/1", "a/2"}, true},
		{"", 10, []string{"a", "a/1", "a/2", "a/\xff", "b/1"}, false}, {"c", 10, nil, false}, {"a/\xff\xff", 1, nil, false},
	} {
		lanes, more, err := e.parking().ParkedLanes(e.ctx, e.scope, []byte(want.prefix), want.most)
		if err != nil {
			e.Fatal(err)
		}
		var got []string
		for _, lane := range lanes {
			got = append(got, string(lane))
		}
		if !slices.Equal(got, want.lanes) || more != want.more {
			e.Errorf("%d of %q: %q, more: %t; want %q", want.most, want.prefix, got, more, want.lanes)
		}
	}
	_, err := e.parking().ParkedLane(e.ctx, e.scope, nil)
	e.invalid(err, "ParkedLane.lane")
	_, _, err = e.parking().ParkedLanes(e.ctx, e.scope, nil, ledger.MaxParkedLanes+1)
	e.invalid(err, "ParkedLanes.most")
	m := e.entry("m")
	c := e.want(o, m, ledger.Run)
	e.invalid(e.settle(o, inLane(c, m, "", 1, time.Hour)), "Settlement.Lane")
	e.invalid(e.settle(o, inLane(c, m, "lane", ledger.PlaceLast-1, time.Hour)), "Settlement.Lane")
	e.invalid(e.settle(o, inLane(c, m, string(make([]byte, ledger.MaxParkLane+1)), 1, time.Hour)), "Settlement.Lane")
	long := string(bytes.Repeat([]byte("\x00\xff"), ledger.MaxParkLane/2))
	e.holds(o, inLane(c, m, long, 1<<62, time.Hour))
	if s := e.inLane(long); s.Messages != 1 {
		e.Errorf("%+v", s)
	}
}

// laneListed: lists and single messages say in which lane a message waits.
func laneListed(e *env) {
	o, list := e.owner(), e.entries(3)
	e.lines(o, "lane", list, time.Hour)
	all := e.listParked(ledger.Filter{})
	if len(all) != len(list) {
		e.Fatalf("%d are listed", len(all))
	}
	for i, m := range list {
		rec := e.record(m)
		at := slices.IndexFunc(all, func(p ledger.ParkedMessage) bool { return p.Key.Sum() == m.Key.Sum() })
		for _, p := range []*ledger.Parked{&all[at].Parked, rec.Parked} {
			if p == nil || p.Lane == nil || string(p.Lane.Name) != "lane" || p.Lane.Place != int64(10+i) || p.Behind() != (i > 0) {
				e.Fatalf("%d: %+v", i, p)
			}
		}
	}
	none := e.entry("none")
	e.parked(o, none, time.Hour)
	if p := e.record(none).Parked; p == nil || p.Lane != nil || p.Behind() {
		e.Fatalf("%+v", p)
	}
}

// laneOutlives: the row of what waits behind others is there for as long as one of them may wait.
func laneOutlives(e *env) {
	o, list := e.owner(), e.entries(2)
	for i := range list {
		list[i].Window = time.Second
	}
	e.lines(o, "lane", list, ledger.MaxPark)
	if r := e.record(list[1]); time.Until(r.Expiry) < ledger.MaxPark+keep-time.Minute {
		e.Fatal(summary(r))
	}
}

// laneStorm: while some park messages of a few lanes, others run them: each once, and each after those before it.
func laneStorm(e *env) {
	const lanes, each, looks = 3, 20, 3
	o := e.owner()
	var mu sync.Mutex
	var wg sync.WaitGroup
	byID, next := map[string]ledger.Entry{}, [lanes]int{}
	for lane := range lanes {
		list := make([]ledger.Entry, each)
		for i := range list {
			list[i] = e.entry(fmt.Sprintf("%d/%d", lane, i))
			byID[string(list[i].Key.ID)] = list[i]
		}
		wg.Go(func() { // as the owner of a partition: one after the other
			for i, m := range list {
				c, err := o.Claim(e.ctx, []ledger.Entry{m})
				if err == nil {
					_, err = o.Settle(e.ctx, []ledger.Settlement{inLane(c[0], m, fmt.Sprint(lane), int64(i), time.Microsecond)})
				}
				if err != nil {
					e.Error(err)
				}
			}
		})
	}
	owners := make([]ledger.Owner, looks)
	for i := range owners {
		owners[i] = e.owner()
	}
	runs := func(at ledger.Owner, p *ledger.Parked) error {
		c, err := at.Claim(e.ctx, []ledger.Entry{fromCare(byID[string(p.Key.ID)])})
		if err != nil || c[0].Answer != ledger.Run {
			return err
		}
		var lane, place int
		if _, err := fmt.Sscanf(string(p.Lane.Name), "%d", &lane); err != nil {
			return err
		}
		place = int(p.Lane.Place)
		mu.Lock()
		if next[lane] != place {
			e.Errorf("%d of lane %d runs, it is the turn of %d", place, lane, next[lane])
		}
		next[lane] = place + 1
		mu.Unlock()
		errs, err := at.Settle(e.ctx, []ledger.Settlement{succeed(c[0])})
		if err == nil {
			err = errs[0]
		}
		return err
	}
	e.eventually("all have run", func() bool {
		var round sync.WaitGroup
		for _, at := range owners {
			round.Go(func() {
				reply, err := e.parking().Due(e.ctx, ledger.DueRequest{Scope: e.scope, Most: 5, Bytes: 1 << 20, Hide: soon})
				for i := 0; i < len(reply.Messages) && err == nil; i++ {
					err = runs(at, &reply.Messages[i])
				}
				if err != nil {
					e.Error(err)
				}
			})
		}
		round.Wait()
		return e.Failed() || next == [lanes]int{each, each, each}
	})
	wg.Wait()
	e.wantParked(0)
}
