package flow

import (
	"cmp"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// limited is a flow whose items of one key have a limit.
func limited(places, most int) *Flow {
	return joined(Config{Concurrency: 8, ClaimAhead: 100, BatchSize: 1, Permits: PermitsConfig{
		Places: places, Limit: func(it *Item) (string, int) { return it.Limit, cmp.Or(it.LimitMost, most) },
	}})
}

func limitedItem(key string, n int) *Item {
	it := plainItem("", fmt.Sprint(key, n))
	it.Limit = key
	return it
}

// wanted is what a flow wants of one key.
func wanted(t *testing.T, f *Flow) PermitCount {
	t.Helper()
	var all []PermitCount
	if _, any := f.NextWanted(&all); !any {
		return PermitCount{}
	}
	if len(all) != 1 {
		t.Fatalf("%v is wanted", all)
	}
	return all[0]
}

// claimAll claims what may be claimed now.
func claimAll(f *Flow) (items []*Item) {
	var c Claim
	for f.NextClaim(0, &c) {
		items = append(items, c.Items...)
		f.ClaimOver(&c)
	}
	return items
}

// An item is claimed once there is a permit for it, which goes from one item to the next; when none waits, it is given back.
func TestPermitsGoFromItemToItem(t *testing.T) {
	t.Parallel()
	f := limited(2, 3)
	for i := range 4 {
		f.Offer(0, limitedItem("a", i))
	}
	f.Offer(0, limitedItem("", 9))
	if got := claimAll(f); len(got) != 1 || got[0].Limit != "" {
		t.Fatalf("%d are claimed without a permit", len(got))
	}
	w := wanted(t, f)
	if w != (PermitCount{Key: "a", N: 2, Most: 3}) {
		t.Fatalf("%+v is wanted", w)
	}
	f.Permitted(f.sess, w, 1)
	var spare []PermitCount
	for range 4 {
		got := claimAll(f)
		if len(got) != 1 {
			t.Fatalf("%d are claimed with a permit", len(got))
		}
		if _, any := f.NextSpare(&spare); any {
			t.Fatalf("%+v is given back", spare)
		}
		f.finish(got[0], Verdict{Ack: true})
	}
	if s, any := f.NextSpare(&spare); !any || s != f.sess || len(spare) != 1 || spare[0].N != 1 {
		t.Fatalf("%+v is given back", spare)
	}
	if !f.permits.Empty() && wanted(t, f).N > 0 {
		t.Error("more is wanted")
	}
}

// When its turn is over, a permit is given back once its item has left, though others wait; they ask for another.
func TestPermitTurnsEnd(t *testing.T) {
	t.Parallel()
	f := limited(8, 1)
	for i := range 2 {
		f.Offer(0, limitedItem("a", i))
	}
	claimAll(f)
	f.Permitted(f.sess, wanted(t, f), 1)
	first := claimAll(f)
	f.PermitTurn()
	f.finish(first[0], Verdict{Ack: true})
	var spare []PermitCount
	if _, any := f.NextSpare(&spare); !any || spare[0].N != 1 || len(claimAll(f)) > 0 {
		t.Fatalf("%+v is given back", spare)
	}
	if w := wanted(t, f); w.N != 1 || !w.Yields {
		t.Fatalf("%+v is wanted", w)
	}
}

// TestPitfall281_GivenBack: permits of a limit that was lowered were kept. Under the lower one all are given back: what nobody uses at once, what is used once its item has left, and what comes by a
// former call as well.
func TestPitfall281_GivenBack(t *testing.T) {
	t.Parallel()
	f := limited(8, 4)
	for i := range 6 {
		f.Offer(0, limitedItem("a", i))
	}
	claimAll(f)
	asked := wanted(t, f)
	f.Permitted(f.sess, PermitCount{Key: "a", N: 2, Most: asked.Most}, 2)
	inUse, late := claimAll(f), limitedItem("a", 9)
	late.LimitMost = 1
	f.Offer(0, late)
	claimAll(f)
	f.Permitted(f.sess, PermitCount{Key: "a", N: asked.N - 2, Most: asked.Most}, asked.N-2)
	var spare []PermitCount
	if _, any := f.NextSpare(&spare); !any || spare[0].N != 2 || len(claimAll(f)) > 0 {
		t.Fatalf("%+v is given back of what came late", spare)
	}
	for i, it := range inUse {
		f.finish(it, Verdict{Ack: true})
		if w := wanted(t, f); w.N > 0 && i == 0 {
			t.Fatalf("%+v is wanted beside one that is used", w)
		}
		if _, any := f.NextSpare(&spare); !any || spare[0].N != 1 || len(claimAll(f)) > 0 {
			t.Fatalf("%d: %+v is given back", i, spare)
		}
	}
	if w := wanted(t, f); w.N != 1 || w.Most != 1 {
		t.Fatalf("%+v is wanted", w)
	}
}

// TestPitfall281_RaisedByOlder: what came before a limit was lowered, and asked once more, raised it again.
func TestPitfall281_RaisedByOlder(t *testing.T) {
	t.Parallel()
	f := limited(8, 4)
	for i := range 2 {
		f.Offer(0, limitedItem("a", i))
	}
	claimAll(f)
	f.Permitted(f.sess, wanted(t, f), 0)
	late := limitedItem("a", 9)
	late.LimitMost = 1
	f.Offer(0, late)
	claimAll(f)
	w := wanted(t, f)
	f.Permitted(f.sess, w, 1)
	f.LeaseLost(0, f.sess)
	f.End().Reset()
	f.Joined(&Session{})
	claimAll(f)
	if again := wanted(t, f); w.Most != 1 || again.Most != 1 {
		t.Fatalf("%+v and then %+v is wanted", w, again)
	}
}

// TestPitfall247_PermitsOfALostLease: what had a permit when the lease was lost, and was not claimed yet, was claimed under the next
// lease without one: more ran than the limit.
func TestPitfall247_PermitsOfALostLease(t *testing.T) {
	t.Parallel()
	f := limited(8, 2)
	for i := range 3 {
		f.Offer(0, limitedItem("a", i))
	}
	claimAll(f)
	f.Permitted(f.sess, wanted(t, f), 2)
	old := f.sess
	f.LeaseLost(0, old)
	f.End().Reset()
	f.Joined(&Session{})
	f.Permitted(old, PermitCount{Key: "a", N: 2}, 2) // an answer that comes late
	if got := claimAll(f); len(got) > 0 {
		t.Fatalf("%d are claimed without a permit", len(got))
	}
	f.Permitted(f.sess, wanted(t, f), 1)
	if got := claimAll(f); len(got) != 1 {
		t.Fatalf("%d are claimed with a permit", len(got))
	}
}

// placesOf counts the items of each key that are being claimed with a permit of this session.
func placesOf(f *Flow, items []*Item) map[string]int {
	used := map[string]int{}
	for _, it := range items {
		if it.Limit != "" && it.phase == claiming && it.permit == f.permits.epoch {
			used[it.Limit]++
		}
	}
	return used
}

// loseSession ends the session, and with it the claims of items, and begins another.
func loseSession(f *Flow, items []*Item) {
	old := f.sess
	f.LeaseLost(0, old)
	f.End().Reset()
	f.Joined(&Session{})
	for _, it := range items {
		if it.phase == claiming { // its claim came to nothing
			it.sess = old
			f.giveBack(it)
		}
	}
}

// Whatever comes, goes and is lost: no more items of a key have a place than permits of this session came and were not given back, none
// waits while one is free whose turn is not over, and nothing is left at the end.
func TestPermitsInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := limited(rapid.IntRange(1, 4).Draw(t, "places"), rapid.IntRange(1, 3).Draw(t, "most"))
		mine, asked := map[string]int{}, []PermitCount(nil)
		var hand, ours []*Item
		n := 0
		claim := func() { ours = append(ours, claimAll(f)...) }
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				claim()
				for key, k := range placesOf(f, ours) {
					if k > mine[key] {
						t.Fatalf("%d of %q are claimed with %d permits", k, key, mine[key])
					}
				}
			},
			"offer": func(t *rapid.T) {
				n++
				it := limitedItem(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key"), n)
				it.LimitMost = rapid.IntRange(0, 3).Draw(t, "limit")
				hand = append(hand, it)
				f.Offer(0, it)
			},
			"want": func(t *rapid.T) {
				var all []PermitCount
				f.NextWanted(&all)
				asked = append(asked, all...)
			},
			"permitted": func(t *rapid.T) {
				if len(asked) == 0 {
					t.Skip()
				}
				got := rapid.IntRange(0, asked[0].N).Draw(t, "got")
				mine[asked[0].Key] += got
				f.Permitted(f.sess, asked[0], got)
				asked = asked[1:]
			},
			"spare": func(t *rapid.T) {
				var all []PermitCount
				f.NextSpare(&all)
				for _, c := range all {
					if mine[c.Key] -= c.N; mine[c.Key] < 0 {
						t.Fatalf("%+v is given back, and does not exist", c)
					}
				}
			},
			"turn": func(*rapid.T) { f.PermitTurn() },
			"finish": func(t *rapid.T) {
				if len(hand) == 0 {
					t.Skip()
				}
				at := rapid.IntRange(0, len(hand)-1).Draw(t, "which")
				f.finish(hand[at], Verdict{Ack: true})
				hand = append(hand[:at:at], hand[at+1:]...)
			},
			"lose": func(*rapid.T) {
				loseSession(f, ours)
				ours, asked = nil, nil
				clear(mine)
			},
		})
		for _, it := range hand {
			f.finish(it, Verdict{Ack: true})
		}
		for _, w := range asked {
			f.Permitted(f.sess, w, 0)
		}
		var rest []PermitCount
		f.NextWanted(&rest)
		f.NextSpare(&rest)
		f.End().Reset()
		if len(f.permits.keys) > 0 {
			t.Fatalf("%d keys are left: %+v", len(f.permits.keys), f.permits)
		}
	})
}

// With many keys one call asks for some of them, and the next ones for the rest.
func TestPermitsOfManyKeys(t *testing.T) {
	t.Parallel()
	const keys = 2*permitKeys + 1
	f := limited(8, 1)
	for i := range keys {
		f.Offer(0, limitedItem(fmt.Sprint("key", i, "-"), i))
	}
	claimAll(f)
	var all []PermitCount
	asked := map[string]bool{}
	for _, any := f.NextWanted(&all); any; _, any = f.NextWanted(&all) {
		if len(all) > permitKeys {
			t.Fatalf("%d keys at once", len(all))
		}
		for _, w := range all {
			asked[w.Key] = true
		}
	}
	if len(asked) != keys {
		t.Errorf("%d of %d keys are asked for", len(asked), keys)
	}
}
