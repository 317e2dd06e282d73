package flow

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Items that wait, against a list of them:
//   - each waits until it is due, and is claimable from then on;
//   - those that are due at once are claimable in the order of their times;
//   - wake says when the next one is due; never if none waits;
//   - whichever is let go of, wherever it stands, is out of the heap, and the others' times are what they were;
//   - an item knows its place in the heap, and that it has none.
func TestWaitingItemsAgainstAList(t *testing.T) {
	t.Parallel()
	dropped, together := 0, 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 23))
		s, now := newSched(seed), time.Duration(0)
		due := map[*Item]time.Duration{}
		for i := range 400 {
			switch r.IntN(4) {
			case 0, 1:
				it := plainItem("", fmt.Sprint(i))
				s.enter(it)
				due[it] = now + time.Duration(r.IntN(60)-10)
				s.hold(it, due[it])
			case 2:
				if len(s.waits) > 0 {
					it := s.waits[r.IntN(len(s.waits))]
					s.remove(it)
					delete(due, it)
					dropped++
					if it.heapAt != 0 || it.phase != finished {
						t.Fatalf("seed %d: what was let go of is in phase %d, at %d of the heap", seed, it.phase, it.heapAt)
					}
				}
			case 3:
				now += time.Duration(r.IntN(10))
				together += wakeAgainstList(t, s, now, due)
			}
			if len(s.waits) != len(due) {
				t.Fatalf("seed %d: %d wait, want %d", seed, len(s.waits), len(due))
			}
			for at, it := range s.waits {
				if int(it.heapAt) != at+1 || it.due != due[it] || it.phase != waiting {
					t.Fatalf("seed %d: the item at %d takes itself to be at %d, due at %s, in phase %d", seed, at, it.heapAt-1, it.due, it.phase)
				}
			}
		}
	}
	if dropped < 1000 || together < 1000 {
		t.Errorf("%d dropped, %d due with others: too little happened", dropped, together)
	}
}

// wakeAgainstList wakes what is due, and takes it out of the list. It returns how many were due with others.
func wakeAgainstList(t *testing.T, s *sched, now time.Duration, due map[*Item]time.Duration) int {
	t.Helper()
	want, next := map[*Item]bool{}, never
	for it, at := range due {
		if at <= now {
			want[it] = true
		} else {
			next = min(next, at)
		}
	}
	s.wake(now)
	got := never
	if len(s.waits) > 0 {
		got = s.waits[0].due
	}
	if got != next {
		t.Fatalf("the next is due at %s, want %s", got, next)
	}
	var woken []*Item
	for s.claimQ.len() > 0 {
		it := s.claimQ.pop().item
		if it.phase != queued { // let go of meanwhile
			continue
		}
		if !want[it] || it.heapAt != 0 {
			t.Fatalf("%s is claimable at %s, due at %s", it.Key.ID, now, due[it])
		}
		woken = append(woken, it)
	}
	if len(woken) != len(want) || !slices.IsSortedFunc(woken, func(a, b *Item) int { return int(due[a] - due[b]) }) {
		t.Fatalf("%d are claimable in order, want %d", len(woken), len(want))
	}
	for _, it := range woken {
		delete(due, it)
		s.remove(it)
	}
	return max(len(woken)-1, 0)
}
