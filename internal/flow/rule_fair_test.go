package flow

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func init() {
	bookRules = append(bookRules,
		func() []Rule { return []Rule{bookFair(FairConfig{Places: 2, Share: 1, Name: tailOf})} },
		func() []Rule {
			return []Rule{bookFair(FairConfig{Places: 3, Share: 2, Name: nameOf}), bookAtMost(1, tailOf)}
		})
}

// bookFair is the rule with what must hold of it.
func bookFair(c FairConfig) Rule {
	return booked{Fair(c), func(placed, waiting []*Item) string {
		all, named := 0, map[string]int{}
		for _, it := range placed {
			if name := c.Name(it); name != "" {
				all++
				named[name]++
			}
		}
		for name, n := range named {
			if n > c.Share || all > c.Places {
				return fmt.Sprintf("%d places of %d are taken, %d by %q, which may have %d", all, c.Places, n, name, c.Share)
			}
		}
		for _, it := range waiting {
			if n := named[c.Name(it)]; n < c.Share && all < c.Places {
				return fmt.Sprintf("%q waits, and has %d places of %d; %d of %d are taken", c.Name(it), n, c.Share, all, c.Places)
			}
		}
		return ""
	}}
}

// turnsBook is what is known of who waits: how many places others have got since a name could have had one.
type turnsBook struct {
	FairConfig
	placed, waiting []*Item
	passed          map[string]map[string]int
}

func (b *turnsBook) has(name string) (n int) {
	for _, it := range b.placed {
		if nameOf(it) == name {
			n++
		}
	}
	return n
}

func (b *turnsBook) named() (n int) { return len(b.placed) - b.has("") }

// firstOf is who waits first of a name; nil: nobody, or it may have no place.
func (b *turnsBook) firstOf(name string) *Item {
	i := slices.IndexFunc(b.waiting, func(it *Item) bool { return nameOf(it) == name })
	if i < 0 || b.has(name) >= b.Share {
		return nil
	}
	return b.waiting[i]
}

// given notes that an item got a place that had waited, and says what is wrong with that.
func (b *turnsBook) given(it *Item) string {
	name := nameOf(it)
	if first := b.firstOf(name); first != it || b.named() >= b.Places {
		return fmt.Sprintf("%q got a place: as the first of its name %v, %d of %d taken", name, first == it, b.named(), b.Places)
	}
	b.waiting = slices.DeleteFunc(b.waiting, func(o *Item) bool { return o == it })
	b.placed = append(b.placed, it)
	delete(b.passed, name)
	for other, by := range b.passed {
		if by[name]++; by[name] > max(b.Weights[name], 1) {
			return fmt.Sprintf("%q got %d places while %q waited", name, by[name], other)
		}
	}
	return ""
}

// look notes who begins to wait for a turn, and who does not wait any more.
func (b *turnsBook) look() {
	for _, name := range []string{"a", "b", "c"} {
		switch eligible := b.firstOf(name) != nil; {
		case !eligible:
			delete(b.passed, name)
		case b.passed[name] == nil:
			b.passed[name] = map[string]int{}
		}
	}
}

// Whoever asks and leaves, in whatever order: no bound is broken, nobody waits where there is room, those of a name come in their order, and
// no name gets more in a turn than its weight while another waits.
func TestFairTakesTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &turnsBook{passed: map[string]map[string]int{}, FairConfig: FairConfig{
			Places: rapid.IntRange(1, 4).Draw(t, "places"), Share: rapid.IntRange(1, 3).Draw(t, "share"),
			Weights: map[string]int{"b": rapid.IntRange(-1, 3).Draw(t, "weight")}, Name: nameOf,
		}}
		rule := Fair(b.FairConfig)
		leave := func(it *Item) {
			is := func(o *Item) bool { return o == it }
			b.placed, b.waiting = slices.DeleteFunc(b.placed, is), slices.DeleteFunc(b.waiting, is)
			rule.Leave(it)
			b.look()
			for next := rule.Next(); next != nil; next = rule.Next() {
				if wrong := b.given(next); wrong != "" {
					t.Fatal(wrong)
				}
				b.look()
			}
			for _, name := range []string{"a", "b", "c"} {
				if b.named() < b.Places && b.firstOf(name) != nil {
					t.Fatalf("%q waits where there is room", name)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if b.named()+len(b.waiting) == 0 && !rule.Empty() {
					t.Fatalf("nothing is in hand, and something is kept")
				}
			},
			"ask": func(t *rapid.T) {
				for range rapid.IntRange(1, 30).Draw(t, "n") {
					it := named(rapid.SampledFrom([]string{"", "a", "a", "a", "b", "c"}).Draw(t, "name"))
					want := nameOf(it) == "" || b.named() < b.Places && b.has(nameOf(it)) < b.Share
					if want {
						b.placed = append(b.placed, it)
					} else {
						b.waiting = append(b.waiting, it)
					}
					if rule.Admit(it) != want {
						t.Fatalf("%q is let in: %v", nameOf(it), !want)
					}
					b.look()
				}
			},
			"leave": func(t *rapid.T) {
				if all := slices.Concat(b.placed, b.waiting); len(all) > 0 {
					leave(all[rapid.IntRange(0, len(all)-1).Draw(t, "which")])
				}
			},
		})
		for len(b.placed) > 0 {
			leave(b.placed[0])
		}
		if len(b.waiting) > 0 || !rule.Empty() {
			t.Fatalf("%d wait for nobody; the rule is empty: %v", len(b.waiting), rule.Empty())
		}
	})
}

// One with a hundred times the load of the others: each of them gets every second place.
func TestFairBesideANoisyOne(t *testing.T) {
	rule := Fair(FairConfig{Places: 1, Share: 1, Name: nameOf})
	first := named("noisy")
	rule.Admit(first)
	for range 100 {
		rule.Admit(named("noisy"))
	}
	var came []string
	for range 6 {
		rule.Admit(named("quiet"))
	}
	for it := first; it != nil && len(came) < 8; {
		rule.Leave(it)
		if it = rule.Next(); it != nil {
			came = append(came, nameOf(it))
		}
	}
	if want := []string{"quiet", "noisy", "quiet", "noisy", "quiet", "noisy", "quiet", "noisy"}; !slices.Equal(came, want) {
		t.Errorf("%v", came)
	}
}

// Who waits no more, and names of whom nobody is there any more, must not stay in memory because no place comes free.
func TestFairForgetsWhoWaitsNoMore(t *testing.T) {
	rule := Fair(FairConfig{Places: 1, Share: 1, Name: nameOf}).(*fair)
	rule.Admit(named("a"))
	for i := range 1000 {
		it := named(fmt.Sprint(i))
		rule.Admit(it)
		rule.Leave(it)
		if next := rule.Next(); next != nil {
			t.Fatal("there is no room")
		}
	}
	if n := rule.turns.len(); n > 70 || len(rule.named) != 1 {
		t.Fatalf("%d turns and %d names are kept", n, len(rule.named))
	}
}

// TestPitfall245_RetryBehindItsTenantsBacklog: a retry that was due waited for its tenant's turn behind all of that tenant's backlog in
// hand, so that a backoff of a second lasted for minutes.
func TestPitfall245_RetryBehindItsTenantsBacklog(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]Rule{
		"fair": Fair(FairConfig{Places: 1, Share: 1, Name: func(*Item) string { return "a" }}), "at most": AtMost(1, everyone),
	} {
		t.Run(name, func(t *testing.T) {
			w := newTwin(rule)
			retry := w.add("", "retry")
			for i := range 100 {
				w.add("", fmt.Sprint(i))
			}
			w.claim(200, false)
			retry.met = true
			w.s.hold(retry, time.Second)
			w.claim(200, false)
			w.s.wake(time.Second)
			w.claim(200, false)
			for n := 0; retry.phase != claiming; n++ {
				if n == 2 {
					t.Fatalf("%d others have run since it was due", n)
				}
				w.s.remove(w.in(claiming)[0])
				w.claim(200, false)
			}
		})
	}
}
