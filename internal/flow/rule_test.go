package flow

import (
	"slices"
	"testing"
	"time"
)

// bookRules are those that the scheduler's twin and the storm are played with: none, narrow ones, two that meet in the same items. The
// test file of another rule appends its own in an init.
var bookRules = []func() []Rule{
	func() []Rule { return nil },
	func() []Rule { return []Rule{bookAtMost(1, tailOf)} },
	func() []Rule { return []Rule{bookAtMost(2, tailOf), bookAtMost(1, nameOf)} },
	func() []Rule { return []Rule{bookAtMost(3, everyone), bookAtMost(1, tailOf), bookAtMost(2, everyone)} },
}

// booked is a rule with what the book knows of it.
type booked struct {
	Rule
	// wrong says what is wrong with those that have a place and those that wait; "" nothing.
	wrong func(placed, waiting []*Item) string
}

// tailOf puts items into two groups that have nothing to do with their order.
func tailOf(it *Item) string { return string('0' + it.Key.ID[len(it.Key.ID)-1]%2) }

func everyone(*Item) string { return "all" }

// checkRules checks against the book that no rule is broken, and that none waits where there is room.
func (w *twin) checkRules(t interface{ Fatalf(string, ...any) }) {
	for i, rule := range w.s.rules {
		var placed, waiting []*Item
		for _, it := range w.all {
			ours, over := it.phase >= claiming && it.phase <= settling, it.phase == finished
			if ours && int(it.admitted) < len(w.s.rules) || over && it.admitted > 0 || (over || it.holds) && it.refused {
				t.Fatalf("an item in phase %d has places of %d rules, and waits for one: %v", it.phase, it.admitted, it.refused)
			}
			if int(it.admitted) > i {
				placed = append(placed, it)
			}
			if it.refused && int(it.admitted) == i {
				waiting = append(waiting, it)
			}
		}
		if wrong := rule.(booked).wrong(placed, waiting); wrong != "" {
			t.Fatalf("rule %d: %s", i, wrong)
		}
	}
}

// An item that waits for a rule closes its sequence, and what may be ours asks no rule again.
func TestRulesAndOrder(t *testing.T) {
	w := newTwin(bookAtMost(1, everyone))
	first, head, behind := w.add("a", "1"), w.add("b", "2"), w.add("b", "3")
	w.claim(10, false)
	if first.phase != claiming || head.phase != waiting || !head.sequence.gated || behind.phase != queued {
		t.Fatalf("phases %d, %d, %d", first.phase, head.phase, behind.phase)
	}
	first.maybe = true
	w.s.requeue(first) // the answer was lost
	if head.phase != waiting {
		t.Fatal("what may be ours has lost its place")
	}
	if out := w.s.takeDoubts(10, nil); !slices.Equal(out, []*Item{first}) {
		t.Fatalf("asked for: %d", len(out))
	}
	first.maybe = false
	w.s.hold(first, time.Second)
	w.claim(10, false)
	if head.phase != claiming || behind.phase != queued {
		t.Fatalf("phases %d, %d", head.phase, behind.phase)
	}
	w.s.wake(time.Second)
	w.claim(10, false)
	w.s.remove(first) // dropped while it waits
	w.check(t)
	w.checkRules(t)
	w.finishAll(t)
}

// What was let in and then finds another copy of its key in hand gives its place to the next.
func TestFollowersNeedNoPlace(t *testing.T) {
	w := newTwin(bookAtMost(2, everyone))
	one, copied, other := w.add("", "1"), w.add("", "1"), w.add("", "2")
	w.claim(10, false)
	if one.phase != claiming || copied.phase != waiting || copied.admitted != 0 || other.phase != claiming {
		t.Fatalf("phases %d, %d, %d", one.phase, copied.phase, other.phase)
	}
	w.checkRules(t)
	w.finishAll(t)
}

// With rules there are no ranges: each item is asked for.
func TestRulesMakeRangesItems(t *testing.T) {
	f := joined(Config{Concurrency: 4, ClaimAhead: 200, BatchSize: 1, Rules: []Rule{AtMost(1, everyone)}})
	if f.cost = 1; f.Ranges(false) {
		t.Error("ranges may be claimed")
	}
}
