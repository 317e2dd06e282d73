package flow

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// named is an item whose name is its ordering key.
func named(name string) *Item { return &Item{OrderingKey: name} }

func nameOf(it *Item) string { return it.OrderingKey }

// bookAtMost is the rule with what must hold of it.
func bookAtMost(limit int, name func(*Item) string) Rule {
	return booked{AtMost(limit, name), func(placed, waiting []*Item) string {
		named := map[string]int{}
		for _, it := range placed {
			if named[name(it)]++; name(it) != "" && named[name(it)] > limit {
				return fmt.Sprintf("more than %d of %q have a place", limit, name(it))
			}
		}
		for _, it := range waiting {
			if n := named[name(it)]; n < limit {
				return fmt.Sprintf("%q waits, and has %d places of %d", name(it), n, limit)
			}
		}
		return ""
	}}
}

// crowd is the dumb twin of the rule: who has a place, and who waits, in lists.
type crowd struct {
	limit           int
	placed, waiting []*Item
}

func (c *crowd) room(name string) bool {
	n := 0
	for _, it := range c.placed {
		if nameOf(it) == name {
			n++
		}
	}
	return n < c.limit || name == ""
}

func (c *crowd) next() *Item {
	for i, it := range c.waiting {
		if c.room(nameOf(it)) {
			c.waiting = slices.Delete(c.waiting, i, i+1)
			c.placed = append(c.placed, it)
			return it
		}
	}
	return nil
}

func (c *crowd) leave(it *Item) {
	is := func(o *Item) bool { return o == it }
	c.placed, c.waiting = slices.DeleteFunc(c.placed, is), slices.DeleteFunc(c.waiting, is)
}

func TestAtMostAgainstItsTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		twin := &crowd{limit: rapid.IntRange(1, 3).Draw(t, "limit")}
		rule := AtMost(twin.limit, nameOf)
		leave := func(it *Item) {
			twin.leave(it)
			rule.Leave(it)
			for more := true; more; {
				is, want := rule.Next(), twin.next()
				if more = want != nil; is != want {
					t.Fatalf("next is %p, not %p", is, want)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				for _, it := range twin.placed {
					if nameOf(it) != "" {
						return
					}
				}
				if !rule.Empty() {
					t.Fatalf("nothing is in hand, and something is kept")
				}
			},
			"ask": func(t *rapid.T) {
				for range rapid.IntRange(1, 30).Draw(t, "n") {
					it := named(rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "name"))
					want := twin.room(nameOf(it))
					if want {
						twin.placed = append(twin.placed, it)
					} else {
						twin.waiting = append(twin.waiting, it)
					}
					if rule.Admit(it) != want {
						t.Fatalf("%q is let in: %v", nameOf(it), !want)
					}
				}
			},
			"leave": func(t *rapid.T) {
				if all := slices.Concat(twin.placed, twin.waiting); len(all) > 0 {
					leave(all[rapid.IntRange(0, len(all)-1).Draw(t, "which")])
				}
			},
		})
		for len(twin.placed) > 0 {
			leave(twin.placed[0])
		}
		if len(twin.waiting) > 0 || !rule.Empty() {
			t.Fatalf("%d wait for nobody; the rule is empty: %v", len(twin.waiting), rule.Empty())
		}
	})
}

// What waits no more must not stay in memory because nobody leaves.
func TestAtMostForgetsWhoWaitsNoMore(t *testing.T) {
	rule := AtMost(1, nameOf).(*atMost)
	rule.Admit(named("a"))
	for range 1000 {
		it := named("a")
		rule.Admit(it)
		rule.Leave(it)
		if next := rule.Next(); next != nil {
			t.Fatal("there is no room")
		}
	}
	if n := rule.named["a"].line.fresh.len(); n > 65 {
		t.Fatalf("%d are kept", n)
	}
}

// Through a flow: of each name two at most are ours, the others wait in their order, and nothing is left of them.
func TestAtMostInAFlow(t *testing.T) {
	rule := AtMost(2, func(it *Item) string { return string(it.Key.ID[:1]) })
	f := joined(Config{Concurrency: 8, ClaimAhead: 100, BatchSize: 1, Rules: []Rule{rule}})
	for i := range 12 {
		f.Offer(0, plainItem("", fmt.Sprint(string("ab"[i%2]), i)))
	}
	var came []string
	for range 3 {
		var c Claim
		if !f.NextClaim(0, &c) || len(c.Items) != 4 {
			t.Fatalf("%d are claimed", len(c.Items))
		}
		var again Claim
		if f.NextClaim(0, &again) || f.Has().Claims {
			t.Fatalf("what waits for a rule is asked for: %d", len(again.Items))
		}
		f.ClaimOver(&c)
		for _, it := range c.Items {
			came = append(came, string(it.Key.ID))
			f.finish(it, Verdict{Ack: true})
		}
	}
	slices.SortStableFunc(came, func(a, b string) int { return int(a[0]) - int(b[0]) })
	if want := []string{"a0", "a2", "a4", "a6", "a8", "a10", "b1", "b3", "b5", "b7", "b9", "b11"}; !slices.Equal(came, want) {
		t.Errorf("in order %v", came)
	}
	f.End().Reset()
	if !f.Empty() {
		t.Errorf("%d are left", f.s.held)
	}
	if rule.Admit(plainItem("", "a")); f.Empty() {
		t.Error("what a rule keeps is not seen")
	}
}
