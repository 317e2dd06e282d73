package flow

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ackledger/ackledger/ledger"
	"pgregory.net/rapid"
)

// The table finds what a map finds, whether keys are hashes or neighbours in a log, and whatever was there before.
func TestInflightAgreesWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, twin := newInflight(rapid.Uint64().Draw(t, "seed")), map[[ledger.KeySize]byte]*Item{}
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			var sum [ledger.KeySize]byte
			sum[0] = byte(rapid.IntRange(0, 2).Draw(t, "log"))
			binary.BigEndian.PutUint64(sum[8:], uint64(rapid.IntRange(0, 300).Draw(t, "offset")*rapid.SampledFrom([]int{1, minInflight}).Draw(t, "stride")))
			had := twin[sum]
			if got := h.get(&sum); got != had {
				t.Fatalf("key %x: found %p, want %p", sum, got, had)
			}
			if had == nil {
				it := &Item{state: state{sum: sum}}
				h.put(it)
				twin[sum] = it
			} else {
				h.remove(had)
				delete(twin, sum)
			}
			if h.n != len(twin) {
				t.Fatalf("%d items, want %d", h.n, len(twin))
			}
		}
		for sum, it := range twin {
			if h.get(&sum) != it {
				t.Fatalf("key %x is not found", sum)
			}
			h.remove(it)
		}
		if h.n != 0 {
			t.Fatalf("%d items are left", h.n)
		}
	})
}

// Neighbours in a log are neighbours in the table, and another seed puts each log elsewhere: nobody can choose keys that meet.
func TestInflightPutsLogsApart(t *testing.T) {
	buckets := func(seed uint64, log byte) []int {
		h := newInflight(seed)
		h.buckets = make([]*Item, 1024)
		var at []int
		for i := range 8 {
			var sum [ledger.KeySize]byte
			sum[0], sum[15] = log, byte(i)
			b := h.at(&sum)
			for n := range h.buckets {
				if &h.buckets[n] == b {
					at = append(at, n)
				}
			}
		}
		return at
	}
	met := 0
	for seed := range uint64(100) {
		one, other := buckets(seed, 1), buckets(seed, 2)
		for i := 1; i < len(one); i++ {
			if one[i] != (one[0]+i)%1024 {
				t.Fatalf("seed %d: neighbours are at %v", seed, one)
			}
		}
		if one[0] == other[0] {
			met++
		}
	}
	if met > 5 {
		t.Errorf("two logs meet under %d of 100 seeds", met)
	}
}

// Copies of few keys that ask for their key and let go of it, against a map of who has it:
//   - an item has its key if nobody has it, or it has it already, and no other copy has it then;
//   - one that does not get it waits, without a time, and stands in no heap;
//   - as soon as the other lets go, all that follow it are claimable, and none of them has the key;
//   - one of them that has gone meanwhile stays gone;
//   - to let go of what one does not have changes nothing, and what has let go knows no followers.
func TestCopiesFollowTheOneThatHasTheKey(t *testing.T) {
	t.Parallel()
	followed := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 31))
		s, holder, follows := newSched(seed), map[string]*Item{}, map[*Item]string{}
		var all []*Item
		for range 300 {
			if len(all) < 12 {
				it := plainItem("", fmt.Sprint(r.IntN(4)))
				s.add(it)
				it.due = 7 // of an earlier wait
				all = append(all, it)
			}
			it := all[r.IntN(len(all))]
			key := string(it.Key.ID)
			switch n := r.IntN(4); {
			case n < 2 && follows[it] == "":
				had := holder[key]
				if got, want := s.grab(it), had == nil || had == it; got != want {
					t.Fatalf("seed %d: has key %s: %v, want %v", seed, key, got, want)
				}
				if had == nil {
					holder[key] = it
				} else if had != it {
					follows[it] = key
				}
			case n == 2:
				if s.letGo(it); holder[key] == it {
					delete(holder, key)
					for f := range follows {
						if follows[f] == key {
							delete(follows, f)
							followed++
						}
					}
				}
			case n == 3 && it != holder[key]: // it has gone
				s.remove(it)
				delete(follows, it)
				all = slices.DeleteFunc(all, func(o *Item) bool { return o == it })
			}
			if s.inflight.n != len(holder) {
				t.Fatalf("seed %d: %d keys are in hand, want %d", seed, s.inflight.n, len(holder))
			}
			for _, it := range all {
				key := string(it.Key.ID)
				if it.holds != (holder[key] == it) || (it.phase == waiting) != (follows[it] != "") || it.heapAt != 0 || it.phase == waiting && it.due != 0 ||
					!it.holds && len(it.rest().followers) > 0 {
					t.Fatalf("seed %d: key %s: holds %v, phase %d, due %s, at %d of the heap", seed, key, it.holds, it.phase, it.due, it.heapAt)
				}
			}
		}
	}
	if followed < 1000 {
		t.Errorf("%d followed: too little happened", followed)
	}
}

// Two copies of a key are never in hand at once, and the one that has it is asked no second time.
func TestOneCopyHoldsAKey(t *testing.T) {
	s := newSched(1)
	first, copied := plainItem("", "a"), plainItem("", "a")
	s.enter(first)
	s.enter(copied)
	for range 2 {
		if !s.holdKey(first) || s.holdKey(copied) || copied.holds || s.inflight.n != 1 {
			t.Errorf("first %v, copy %v, %d in hand", first.holds, copied.holds, s.inflight.n)
		}
	}
	s.letGo(first)
	if !s.holdKey(copied) {
		t.Error("what was let go of cannot be held")
	}
}
