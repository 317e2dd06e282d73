package slots_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/ackledger/ackledger/internal/slots"
)

// book is what is known of the shares: who waits, who has slots, and how often others were served meanwhile.
type book struct {
	rule   *slots.Rule
	slots  int
	shares []*entry
}

type entry struct {
	*slots.Share
	level, weight, waiting, has int
	passed                      map[*entry]int // slots that others of its level got, since it waits or had one
	over                        int            // slots that anybody got, since one of its level waits or had one
}

func newBook(n int, of ...[2]int) *book {
	b := &book{rule: slots.New(n), slots: n}
	for _, lw := range of {
		b.shares = append(b.shares, &entry{Share: b.rule.Join(lw[0], lw[1]), level: lw[0], weight: lw[1], passed: map[*entry]int{}})
	}
	return b
}

func (b *book) taken() (n int) {
	for _, e := range b.shares {
		n += e.has
	}
	return n
}

func (b *book) waits(level int) bool {
	for _, e := range b.shares {
		if e.level == level && e.waiting > 0 {
			return true
		}
	}
	return false
}

func (b *book) levels() int {
	seen := map[int]bool{}
	for _, e := range b.shares {
		seen[e.level] = true
	}
	return len(seen)
}

func (b *book) ask(e *entry) (wrong string) {
	want := b.taken() < b.slots
	if b.rule.Ask(e.Share) != want {
		return fmt.Sprintf("%d of %d slots are taken, and asking is answered with %t", b.taken(), b.slots, !want)
	}
	if want {
		e.has++
	} else {
		e.waiting++
	}
	return ""
}

func (b *book) quit(e *entry) {
	b.rule.Quit(e.Share)
	if e.waiting--; e.waiting == 0 {
		clear(e.passed)
	}
	b.look()
}

// look ends the count of what passes a level over of which nobody waits.
func (b *book) look() {
	for _, e := range b.shares {
		if !b.waits(e.level) {
			e.over = 0
		}
	}
}

// free has a share give one back, and checks who gets it.
func (b *book) free(e *entry) (got *entry, wrong string) {
	e.has--
	to := b.rule.Free()
	anybody := false
	for _, o := range b.shares {
		anybody = anybody || o.waiting > 0
		if to != nil && o.Share == to {
			got = o
		}
	}
	switch {
	case got == nil && anybody:
		return nil, "a slot is free while somebody waits"
	case got == nil:
		return nil, ""
	case got.waiting == 0:
		return nil, "one has a slot who does not wait"
	}
	got.waiting--
	got.has++
	clear(got.passed)
	for _, o := range b.shares {
		if o.level == got.level {
			o.over = 0
		} else if b.waits(o.level) {
			if o.over++; o.over > slots.Patience+b.levels()-2 {
				return got, fmt.Sprintf("level %d was passed over %d times", o.level, o.over)
			}
		}
		if o.level == got.level && o != got && o.waiting > 0 {
			if o.passed[got]++; float64(o.passed[got]) > float64(got.weight)/float64(o.weight)+1.001 {
				return got, fmt.Sprintf("a share of weight %d got %d slots while one of weight %d waited", got.weight, o.passed[got], o.weight)
			}
		}
	}
	b.look()
	return got, ""
}

// Whoever asks, gives back and gives up, in whatever order: no more slots are taken than there are, none is free while somebody waits, a
// share gets no more than its weight over another's, and one, while that waits, and a level that waits is passed over no longer than it says.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var of [][2]int
		for range rapid.IntRange(1, 6).Draw(t, "shares") {
			of = append(of, [2]int{rapid.IntRange(-1, 3).Draw(t, "level"), rapid.IntRange(1, 4).Draw(t, "weight")})
		}
		b := newBook(rapid.IntRange(1, 4).Draw(t, "slots"), of...)
		with := func(t *rapid.T, of func(*entry) int) *entry {
			var all []*entry
			for _, e := range b.shares {
				if of(e) > 0 {
					all = append(all, e)
				}
			}
			if len(all) == 0 {
				t.Skip()
			}
			return rapid.SampledFrom(all).Draw(t, "share")
		}
		t.Repeat(map[string]func(*rapid.T){
			"ask": func(t *rapid.T) {
				for range rapid.IntRange(1, 10).Draw(t, "n") {
					if wrong := b.ask(rapid.SampledFrom(b.shares).Draw(t, "share")); wrong != "" {
						t.Fatal(wrong)
					}
				}
			},
			"free": func(t *rapid.T) {
				if _, wrong := b.free(with(t, func(e *entry) int { return e.has })); wrong != "" {
					t.Fatal(wrong)
				}
			},
			"quit": func(t *rapid.T) { b.quit(with(t, func(e *entry) int { return e.waiting })) },
		})
	})
}

// Each has a backlog for ever, and handlers that take as long as chance will: what they get over a long time. Weights hold within a level;
// a level that is not the first gets what its patience gives it.
func TestSharesOfALongTime(t *testing.T) {
	const lower = slots.Patience + 1
	for name, c := range map[string]struct {
		of   [][2]int
		want []float64 // of all
	}{
		"weights": {[][2]int{{0, 1}, {0, 2}, {0, 5}}, []float64{1. / 8, 2. / 8, 5. / 8}},
		"levels":  {[][2]int{{0, 1}, {1, 1}}, []float64{1 - 1./lower, 1. / lower}},
		"both":    {[][2]int{{0, 3}, {0, 1}, {1, 1}, {1, 1}}, []float64{0.75 * (1 - 1./lower), 0.25 * (1 - 1./lower), 0.5 / lower, 0.5 / lower}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const n, rounds = 8, 200_000
			b, rnd := newBook(n, c.of...), rand.New(rand.NewPCG(1, 7))
			var running []*entry
			for _, e := range b.shares {
				for range 2 * n {
					if b.ask(e); e.has > 0 && e.waiting == 0 && len(running) < n {
						running = append(running, e)
					}
				}
			}
			got := map[*entry]int{}
			for range rounds {
				at := rnd.IntN(len(running))
				done := running[at]
				next, wrong := b.free(done)
				if wrong != "" {
					t.Fatal(wrong)
				}
				running[at] = next
				got[next]++
				b.ask(done)
			}
			for i, e := range b.shares {
				if share := float64(got[e]) / rounds; share < c.want[i]*0.98 || share > c.want[i]*1.02 {
					t.Errorf("share %d got %.4f, want %.4f", i, share, c.want[i])
				}
			}
		})
	}
}

// Whoever comes alone has all slots, also with the last level.
func TestAloneHasAll(t *testing.T) {
	b := newBook(4, [2]int{0, 9}, [2]int{9, 1})
	for range 4 {
		if b.ask(b.shares[1]); b.shares[1].waiting > 0 {
			t.Fatal("a slot is free, and it waits")
		}
	}
}

// TestPitfall246_StarvedByAHigherLevel: a source of a lower level was starved by the backlog of a higher one, for as long as that lasted.
func TestPitfall246_StarvedByAHigherLevel(t *testing.T) {
	t.Parallel()
	b := newBook(1, [2]int{0, 1}, [2]int{1, 1}, [2]int{2, 1})
	first := b.shares[0]
	for range 1000 {
		b.ask(first)
	}
	b.ask(b.shares[1])
	b.ask(b.shares[2])
	holder := first
	for n := 1; b.shares[1].waiting+b.shares[2].waiting > 0; n++ {
		next, wrong := b.free(holder)
		if holder = next; wrong != "" || n > slots.Patience+2 {
			t.Fatalf("after %d slots: %s", n, wrong)
		}
	}
}
