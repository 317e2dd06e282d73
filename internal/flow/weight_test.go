package flow

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// What counts is what a list of all messages says: all of them, less the largest if it is more than a quarter of the limit.
func TestWeight(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const limit = 1000
	w := Weight{Limit: limit}
	var in []int64
	for range 100_000 {
		if len(in) > 0 && rnd.IntN(2) == 0 {
			at := rnd.IntN(len(in))
			w.Remove(in[at])
			in = slices.Delete(in, at, at+1)
		} else if len(in) < 20 {
			n := int64(rnd.IntN(400)) + 40
			w.Add(n)
			in = append(in, n)
		}
		total, largest := int64(0), int64(0)
		for _, n := range in {
			total, largest = total+n, max(largest, n)
		}
		counted := total
		if largest > limit/4 {
			counted -= largest
		}
		crowd := 0
		for _, n := range in {
			if n > limit/4 {
				crowd++
			}
		}
		if crowd < 2 || counted < limit {
			crowd = 0
		}
		if w.Crowd() != crowd {
			t.Fatalf("%v: a crowd of %d, want %d", in, w.Crowd(), crowd)
		}
		if w.Total() != total || w.Counted() != counted || w.Room() != limit-counted {
			t.Fatalf("%v: total %d, counted %d, room %d; want %d, %d", in, w.Total(), w.Counted(), w.Room(), total, counted)
		}
	}
	w.AddAll(300)
	before := w.Counted()
	w.AddAll(-300)
	if w.Counted() != before-300 {
		t.Errorf("%d, then %d", before, w.Counted())
	}
}
