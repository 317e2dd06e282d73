package sim

import (
	"strings"
	"testing"
	"time"
)

// Each promise of a member of a group is told by name when it is broken.
func TestBrokenPromisesOfMembersAreTold(t *testing.T) {
	for promise, breaks := range map[string]func(x *broken, m *member, a *assignment){
		"a partition has one assignment": func(_ *broken, m *member, a *assignment) {
			m.all = nil
			m.assigned(a.part, a.part.committed)
		},
		"an assignment closes once":                               func(_ *broken, m *member, a *assignment) { a.closed = true; m.close(a) },
		"a partition is given back when nothing of it is in hand": func(_ *broken, m *member, a *assignment) { m.hands[a] = 1; m.drop(a, func() {}); m.pump() },
		"what is in hand is not passed over":                      func(_ *broken, m *member, a *assignment) { a.taken[0].done = true; m.dataLoss(a, 1, 0) },
		"each record is taken in once":                            func(x *broken, _ *member, a *assignment) { a.taken = nil; a.take(x.part().records[0]) },
		"the position is that of the finished prefix":             func(_ *broken, _ *member, a *assignment) { a.taken[1].done = true; a.finish(a.taken[0], true) },
		"what is finished is committed, and nothing else":         func(_ *broken, m *member, a *assignment) { a.confirmed = -1; m.commitNow() },
		"what is committed is the finished prefix, and only grows": func(_ *broken, _ *member, a *assignment) {
			a.confirmed = -1
			a.mustBeDue(offsetEpoch{1, 0}, true, true)
		},
		"what is let go of is gone": func(_ *broken, m *member, a *assignment) { m.mustBeGone(a, a) },
		"a partition that crowds leaves the room": func(_ *broken, m *member, a *assignment) {
			other := &assignment{member: m, part: newPartition(m.world, 1)}
			m.install(other)
			m.now, m.cluster.held = time.Minute, 1
			m.mustCrowd(nil, 0)
		},
		"a partition is read where it crowds nobody": func(_ *broken, m *member, a *assignment) { m.mustCrowd(nil, time.Second) },
		"a partition that was left out goes on":      func(_ *broken, m *member, a *assignment) { a.stuck = true; m.cluster.held = 100; m.unstuck() },
		"a partition pauses at the span's limit":     func(_ *broken, m *member, a *assignment) { m.cluster.span = 2; a.pauses() },
		"no more is in hand than may be":             func(_ *broken, m *member, a *assignment) { m.cluster.held = 1; a.pauses() },
		"what holds the position is told":            func(_ *broken, _ *member, a *assignment) { a.taken[0].done = true; a.mustBeFull(false) },
		"what is in hand is counted":                 func(_ *broken, m *member, a *assignment) { a.taken[0].back = true; a.pauses() },
		"the span is limited":                        func(_ *broken, m *member, a *assignment) { m.cluster.span, a.paused = 1, true; a.pauses() },
		"a partition goes on when half of the span":  func(_ *broken, m *member, a *assignment) { a.paused = true; a.resumes() },
		"what is not read has a reason":              func(_ *broken, m *member, a *assignment) { a.paused = true; a.mustBeFull(true) },
		"the lag is what is not finished":            func(_ *broken, m *member, a *assignment) { a.end = 5; a.saw() },
		"nothing is passed over":                     func(x *broken, m *member, a *assignment) { m.cluster.mustHaveRead() },
	} {
		t.Run(promise, func(t *testing.T) {
			x := newBroken(t)
			m := x.w.broker.join(x.both[0]).(*member)
			m.source = m
			part := x.part()
			part.owner = m
			m.assigned(part, part.committed)
			a := m.at(part)
			for _, r := range part.records[:2] {
				a.take(r)
			}
			breaks(x, m, a)
			if b := x.w.broken; b == nil || !strings.HasPrefix(b.Promise, promise) {
				t.Errorf("%+v", b)
			}
		})
	}
}
