package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
)

func plainItem(lane, id string) *Item {
	it := &Item{Msg: &consumer.Message{ID: id}, Lane: lane}
	it.Key = ledger.Key{Scope: "s", ID: []byte(id)}
	return it
}

// Behind a head that waits nothing of its lane is claimed. Once the head is ours again, those behind it may be claimed, while it runs.
func TestLaneOpensWhenItsHeadIsOurs(t *testing.T) {
	s, now := newSched(), time.Unix(0, 0)
	head, behind := plainItem("l", "a"), plainItem("l", "b")
	s.add(head)
	s.add(behind)
	if got := s.takeClaims(1, true, nil); !slices.Equal(got, []*Item{head}) {
		t.Fatalf("claimed %v", got)
	}
	s.hold(head, now.Add(time.Second))
	if got := s.takeClaims(10, false, nil); len(got) != 0 || !head.lane.gated {
		t.Errorf("behind a head that waits %d are claimed, closed %v", len(got), head.lane.gated)
	}
	s.wake(now.Add(time.Second))
	if got := s.takeClaims(10, false, nil); !slices.Equal(got, []*Item{head}) {
		t.Fatalf("when it is due, %d are claimed, want the head alone", len(got))
	}
	s.won(head)
	if head.lane.gated {
		t.Error("the lane of a head that is ours is closed")
	}
	if got := s.takeClaims(10, false, nil); !slices.Equal(got, []*Item{behind}) {
		t.Errorf("behind a head that is ours %d are claimed, want 1", len(got))
	}
}

// What was won behind a head that waits is released, and does not open the lane.
func TestWhatIsWonBehindAWaitingHeadIsReleased(t *testing.T) {
	s := newSched()
	head, behind := plainItem("l", "a"), plainItem("l", "b")
	s.add(head)
	s.add(behind)
	s.takeClaims(10, false, nil)
	s.hold(head, time.Unix(1, 0))
	s.won(behind)
	if !slices.Equal(s.toRelease, []*Item{behind}) || !head.lane.gated || s.readyQ.len() != 0 {
		t.Errorf("%d to be released, closed %v, %d ready", len(s.toRelease), head.lane.gated, s.readyQ.len())
	}
}

// That something stopped wanting a slot is remembered until the engine has told: what comes after it does not undo it.
func TestEasedStaysUntilItIsTold(t *testing.T) {
	s := newSched()
	a, b := plainItem("", "a"), plainItem("", "b")
	s.add(a)
	s.add(b)
	s.takeClaims(10, false, nil)
	if s.eased {
		t.Error("eased by claims")
	}
	for i, it := range []*Item{a, b} {
		if s.hold(it, time.Unix(1, 0)); !s.eased {
			t.Errorf("not eased by %d that wait", i+1)
		}
	}
	if s.wake(time.Unix(2, 0)); !s.eased {
		t.Error("what was due has undone it")
	}
}

// Two copies of a key are never in hand at once, and the one that has it is asked no second time.
func TestOneCopyHoldsAKey(t *testing.T) {
	s := newSched()
	first, copied := plainItem("", "a"), plainItem("", "a")
	s.enter(first)
	s.enter(copied)
	for range 2 {
		if !s.holdKey(first) || s.holdKey(copied) || copied.holds || s.hands.len() != 1 {
			t.Errorf("first %v, copy %v, %d in hand", first.holds, copied.holds, s.hands.len())
		}
	}
	s.letGo(first)
	if !s.holdKey(copied) {
		t.Error("what was let go of cannot be held")
	}
}

// Queues drop what went on meanwhile once most of them is that, and keep what is still to come, in order.
func TestPruneKeepsWhatIsStillToCome(t *testing.T) {
	const stale = 2000
	s := newSched()
	add := func(i int, p phase) *Item {
		it := plainItem("", fmt.Sprint(i))
		it.phase = p
		return it
	}
	for i := range stale {
		s.claimQ.push(slot{item: add(i, finished)}, i%2 == 0)
		s.claimQ.push(slot{lane: &lane{}}, false) // all its items were let go of
		s.readyQ.push(add(i, finished))
		s.doubtQ.push(add(i, queued)) // known by now
		s.suspectQ.push(add(i, queued))
	}
	one, ready, maybe, alone := add(0, queued), add(0, claimed), add(0, queued), add(0, suspect)
	maybe.maybe = true
	listed := &lane{head: one}
	s.claimQ.push(slot{item: one}, false)
	s.claimQ.push(slot{lane: listed}, true)
	s.readyQ.push(ready)
	s.doubtQ.push(maybe)
	s.suspectQ.push(alone)
	s.prune()
	if s.claimQ.len() != 2 || s.readyQ.len() != 1 || s.doubtQ.len() != 1 || s.suspectQ.len() != 1 {
		t.Fatalf("left: %d to claim, %d ready, %d in doubt, %d suspect", s.claimQ.len(), s.readyQ.len(), s.doubtQ.len(), s.suspectQ.len())
	}
	if s.claimQ.pop().lane != listed || s.claimQ.pop().item != one || s.readyQ.pop() != ready || s.doubtQ.pop() != maybe || s.suspectQ.pop() != alone {
		t.Error("others are left than are still to come")
	}
	for i := range 100 { // few: not worth it
		s.readyQ.push(add(i, finished))
	}
	if s.prune(); s.readyQ.len() != 100 {
		t.Errorf("%d are left of a short queue", s.readyQ.len())
	}
}

// What is taken out of a queue or a heap is not kept in memory by it.
func TestQueuesLetGoOfWhatTheyGive(t *testing.T) {
	var h waitHeap
	h.Push(plainItem("", "a"))
	array := h[:1]
	if h.Pop(); array[0] != nil {
		t.Error("the heap keeps what was taken")
	}
	var q fifo[*Item]
	q.push(plainItem("", "a"))
	q.push(plainItem("", "b"))
	buf := q.buf
	if q.pop(); buf[0] != nil {
		t.Error("the queue keeps what was taken")
	}
	q.filter(func(*Item) bool { return false })
	if buf[1] != nil {
		t.Error("the queue keeps what was filtered out")
	}
}

// A goroutine takes bodies up to its bound of bytes: the one with which the bound is reached is the last.
func TestTakesNoMoreBytesThanItsBound(t *testing.T) {
	e := readied(chunkBytes/2, chunkBytes/2, 10)
	e.cost = 1
	if got := len(e.takeReady()); got != 2 {
		t.Errorf("takes %d, want 2", got)
	}
}

// A settlement counts with all that it carries.
func TestSizeOfASettlement(t *testing.T) {
	dead := &ledger.Archive{Body: make([]byte, 70), Headers: []ledger.Header{{Name: "name", Value: make([]byte, 26)}}}
	for name, c := range map[string]struct {
		more *ledger.Settlement
		want int
	}{
		"nothing":           {nil, 0},
		"a result":          {&ledger.Settlement{Result: make([]byte, 7)}, 7},
		"a dead letter":     {&ledger.Settlement{Dead: dead}, 100},
		"both":              {&ledger.Settlement{Dead: dead, Result: make([]byte, 7)}, 107},
		"a settlement bare": {&ledger.Settlement{}, 0},
	} {
		if got := (&settlement{more: c.more}).size(); got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
}

// A chunk that was taken back takes no place of the limiter that it did not have: its handler's place is another's.
func TestTakenBackTakesNoPlace(t *testing.T) {
	o, err := consumer.Options{Name: "n", Rate: 1000, Limiter: consumer.NewLimiter(1)}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	e := idle(t, o)
	gone := &chunk{}
	gone.next.Store(takenBack)
	for range 3 {
		if err := e.acquire(gone); err == nil {
			t.Fatal("a chunk that was taken back was admitted")
		}
	}
	if err := e.acquire(nil); err != nil {
		t.Fatal(err)
	}
	e.opt.Limiter.Release()
}
