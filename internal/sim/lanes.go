package sim

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/internal/visibility"
	"github.com/ackledger/ackledger/ledger"
)

// In a world of keys that parks, the message of a key that waits in the ledger keeps its key: those behind it are parked behind it.

// lane is where a message of an ordering key is parked.
type lane struct {
	delivery
	known *flow.Lanes // of the log's assignment; of a queue's groups nothing is known
	of    *taken      // nil: it is of a queue
	key   uint64
	place int64
}

// laned is the lane of an item; nil: it has none.
func (p *process) laned(it *flow.Item) *lane {
	d := of(it)
	if d.copied || it.OrderingKey == "" || !p.parks() {
		return nil
	}
	key := laneKey(it.OrderingKey)
	switch from := d.of.(type) {
	case *assignment:
		t := from.by[d.message]
		return &lane{d, &from.lanes, t, key, t.offset}
	case *visibility.Hold:
		shared := &flow.Lanes{}
		shared.Share()
		return &lane{d, shared, nil, key, ledger.PlaceLast}
	default:
		return nil
	}
}

// laneKey is the number of an ordering key in its partition.
func laneKey(of string) uint64 {
	_, number, _ := strings.Cut(of, "/")
	key, _ := strconv.ParseUint(number, 10, 64)
	return key
}

func lanePrefix(partition int) string { return fmt.Sprintf("log-%d/", partition) }

func (l *lane) name() []byte { return fmt.Appendf(nil, "%s%016x", lanePrefix(l.partition), l.key) }

// parksIn marks the lane of a message that is to be parked.
func (l *lane) parksIn(f *fact) *ledger.ParkLane {
	f.before, f.follows = l.before, !l.first
	if l.of != nil && !l.of.parking {
		l.of.parking = true
		l.known.Parks(l.key)
	}
	return &ledger.ParkLane{Name: l.name(), Place: l.place}
}

// inCare notes which lanes the ledger's answers show.
func (p *process) inCare(items []*flow.Item, answers []ledger.Claim) {
	for i, it := range items {
		if l := p.laned(it); l != nil && l.of != nil && answers[i].Answer == ledger.InCare {
			l.known.Mark(l.key)
		}
	}
}

// letsGo notes that a delivery is not in hand any more.
func (p *process) letsGo(d delivery) {
	a, is := d.of.(*assignment)
	if !is || d.copied {
		return
	}
	if t := a.by[d.message]; t != nil && t.parking {
		t.parking = false
		a.lanes.Parked(laneKey(t.lane))
	}
}

// askLanes asks what follows for the messages that are to begin, from one on.
func (c *chunk) askLanes(at int, then func()) {
	for ; at < c.next; at++ {
		l := c.p.laned(c.item(at))
		if l == nil || l.known.Free() {
			continue
		}
		c.p.askLane(l, func(step flow.LaneStep) {
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

// askLane asks what follows for a message. Without an answer it waits.
func (p *process) askLane(l *lane, then func(flow.LaneStep)) {
	prefix := lanePrefix(l.partition)
	if since, is := l.known.ToLoad(p.now); is {
		var names [][]byte
		var more bool
		p.request("a look for lanes", p.reach(timeout), func() (err error) {
			names, more, err = p.ledger.ParkedLanes(context.Background(), scopeOf(l.message), []byte(prefix), 1+p.rnd.IntN(8))
			return err
		}, func(err error) {
			if err != nil {
				then(flow.LaneHolds)
				return
			}
			keys := make([]uint64, len(names))
			for i, name := range names {
				keys[i], _ = strconv.ParseUint(strings.TrimPrefix(string(name), prefix), 16, 64)
			}
			l.known.Load(p.now, since, keys, more)
			p.lookAtLane(l, then)
		})
		return
	}
	p.lookAtLane(l, then)
}

func (p *process) lookAtLane(l *lane, then func(flow.LaneStep)) {
	step, _, since := l.known.Look(p.now, l.key)
	if step != flow.LaneAsks {
		then(step)
		return
	}
	var s ledger.LaneStats
	p.request("a look at a lane", p.reach(timeout), func() (err error) {
		s, err = p.ledger.ParkedLane(context.Background(), scopeOf(l.message), l.name())
		return err
	}, func(err error) {
		if err != nil {
			then(flow.LaneHolds)
			return
		}
		then(l.known.Heard(p.now, l.key, since, s.Messages, p.seconds(s.Wait)))
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
		Kind: ledger.Park, After: time.Microsecond, Dead: p.archive(it, "", attempt), Lane: p.laned(it).parksIn(p.facts.of(of(it).message)),
	}}
}
