package sim

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
)

// In a world of keys that parks, the message of a key that waits in the ledger keeps its key: those behind it are parked behind it.

// laned is the record of an item that is parked in the lane of its key; nil: it has none.
func (p *process) laned(it *flow.Item) *taken {
	d := of(it)
	a, is := d.of.(*assignment)
	if !is || d.copied || it.OrderingKey == "" || !p.parks() {
		return nil
	}
	return a.by[d.message]
}

// laneKey is the number of a record's key in its partition.
func (t *taken) laneKey() uint64 {
	_, key, _ := strings.Cut(t.lane, "/")
	n, _ := strconv.ParseUint(key, 10, 64)
	return n
}

func lanePrefix(partition int) string { return fmt.Sprintf("log-%d/", partition) }

// parkLane is where a record is parked.
func (t *taken) parkLane() *ledger.ParkLane {
	return &ledger.ParkLane{Name: fmt.Appendf(nil, "%s%016x", lanePrefix(t.partition), t.laneKey()), Place: t.offset}
}

// parksIn marks the lane of a record that is to be parked.
func (t *taken) parksIn() *ledger.ParkLane {
	m := t.of.member
	f := m.facts.of(t.message)
	f.before, f.follows = t.before, !t.first
	if !t.parking {
		t.parking = true
		t.of.lanes.Parks(t.laneKey())
	}
	return t.parkLane()
}

// inCare notes which lanes the ledger's answers show.
func (p *process) inCare(items []*flow.Item, answers []ledger.Claim) {
	for i, it := range items {
		if t := p.laned(it); t != nil && answers[i].Answer == ledger.InCare {
			t.of.lanes.Mark(t.laneKey())
		}
	}
}

// letsGo notes that a delivery of a record is not in hand any more.
func (p *process) letsGo(d delivery) {
	a, is := d.of.(*assignment)
	if !is || d.copied || !p.parks() {
		return
	}
	if t := a.by[d.message]; t != nil && t.parking {
		t.parking = false
		a.lanes.Parked(t.laneKey())
	}
}

// askLanes asks what follows for the messages that are to begin, from one on.
func (c *chunk) askLanes(at int, then func()) {
	for ; at < c.next; at++ {
		t := c.p.laned(c.item(at))
		if t == nil || t.of.lanes.Free() {
			continue
		}
		c.p.askLane(t, func(step flow.LaneStep) {
			if c.held == nil {
				c.held = map[int]flow.LaneStep{}
			}
			c.held[at] = step
			c.askLanes(at+1, func() {
				for i := range c.next {
					c.off[i] = c.off[i] || i >= len(c.outcomes) && c.held[i] == flow.LaneRuns && !c.p.flow.MayBegin(c.item(i))
				}
				then()
			})
		})
		return
	}
	then()
}

// askLane asks what follows for a record. Without an answer it waits.
func (p *process) askLane(t *taken, then func(flow.LaneStep)) {
	l, scope := &t.of.lanes, scopeOf(t.message)
	if since, is := l.ToLoad(p.now); is {
		var names [][]byte
		var more bool
		p.request("a look for lanes", p.reach(timeout), func() (err error) {
			names, more, err = p.ledger.ParkedLanes(context.Background(), scope, []byte(lanePrefix(t.partition)), 1+p.rnd.IntN(8))
			return err
		}, func(err error) {
			if err != nil {
				then(flow.LaneHolds)
				return
			}
			keys := make([]uint64, len(names))
			for i, name := range names {
				keys[i], _ = strconv.ParseUint(strings.TrimPrefix(string(name), lanePrefix(t.partition)), 16, 64)
			}
			l.Load(p.now, since, keys, more)
			p.lookAtLane(t, then)
		})
		return
	}
	p.lookAtLane(t, then)
}

func (p *process) lookAtLane(t *taken, then func(flow.LaneStep)) {
	l, key := &t.of.lanes, t.laneKey()
	step, _, since := l.Look(p.now, key)
	if step != flow.LaneAsks {
		then(step)
		return
	}
	var s ledger.LaneStats
	p.request("a look at a lane", p.reach(timeout), func() (err error) {
		s, err = p.ledger.ParkedLane(context.Background(), scopeOf(t.message), t.parkLane().Name)
		return err
	}, func(err error) {
		if err != nil {
			then(flow.LaneHolds)
			return
		}
		then(l.Heard(p.now, key, since, s.Messages, p.seconds(s.Wait)))
	})
}

// heldBack is the outcome of a message that does not begin since others of its key are parked before it.
func (c *chunk) heldBack(at int) flow.Outcome {
	p, it := c.p, c.item(at)
	hold := &ledger.Settlement{Kind: ledger.Release, After: p.between(50*time.Millisecond, 150*time.Millisecond)}
	if c.held[at] == flow.LaneHolds || p.rnd.IntN(4) == 0 { // or there is no room
		return flow.Outcome{More: hold, Narrow: true}
	}
	_, _, attempt := c.claimed(at)
	p.report.Behind++
	return flow.Outcome{Else: hold, More: &ledger.Settlement{
		Kind: ledger.Park, After: time.Microsecond, Dead: p.archive(it, "", attempt), Lane: p.laned(it).parksIn(),
	}}
}
