package flow

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Behind a head that waits nothing of its sequence is claimed. Once the head is ours again, those behind it may be claimed, while it runs.
func TestSequenceOpensWhenItsHeadIsOurs(t *testing.T) {
	s, now := newSched(1), time.Duration(0)
	head, behind := plainItem("l", "a"), plainItem("l", "b")
	s.add(head)
	s.add(behind)
	if got := s.takeClaims(1, true, nil); !slices.Equal(got, []*Item{head}) {
		t.Fatalf("claimed %v", got)
	}
	s.hold(head, now+time.Second)
	if got := s.takeClaims(10, false, nil); len(got) != 0 || !head.sequence.gated {
		t.Errorf("behind a head that waits %d are claimed, closed %v", len(got), head.sequence.gated)
	}
	s.wake(now + time.Second)
	if got := s.takeClaims(10, false, nil); !slices.Equal(got, []*Item{head}) {
		t.Fatalf("when it is due, %d are claimed, want the head alone", len(got))
	}
	s.won(head)
	if head.sequence.gated {
		t.Error("the sequence of a head that is ours is closed")
	}
	if got := s.takeClaims(10, false, nil); !slices.Equal(got, []*Item{behind}) {
		t.Errorf("behind a head that is ours %d are claimed, want 1", len(got))
	}
}

// What was won behind a head that waits is released, and does not open the sequence.
func TestWhatIsWonBehindAWaitingHeadIsReleased(t *testing.T) {
	s := newSched(1)
	head, behind := plainItem("l", "a"), plainItem("l", "b")
	s.add(head)
	s.add(behind)
	s.takeClaims(10, false, nil)
	s.hold(head, time.Second)
	s.won(behind)
	if !slices.Equal(s.toRelease, []*Item{behind}) || !head.sequence.gated || s.readyQ.len() != 0 {
		t.Errorf("%d to be released, closed %v, %d ready", len(s.toRelease), head.sequence.gated, s.readyQ.len())
	}
}

// A deep sequence keeps none of the shallow ones waiting.
func TestSequencesTakeTurns(t *testing.T) {
	w := newTwin()
	for range 1000 {
		w.add("deep", fmt.Sprint("deep ", len(w.all)))
	}
	for i := range 9 {
		w.add(fmt.Sprint("sequence ", i), fmt.Sprint("shallow ", i))
	}
	w.claim(20, false)
	if n := len(w.in(claiming)); n != 20 {
		t.Fatalf("%d claimed of 20", n)
	}
	for _, it := range w.all[1000:] {
		if it.phase != claiming {
			t.Fatalf("sequence %q waits behind a deep one", it.OrderingKey)
		}
	}
}

// A retry that was due in 100 ms stood behind thousands of messages that had come later, for seconds; on Kafka the
// committed offset stood still with it.
func TestWhatIsDueGoesAheadOfTheBacklog(t *testing.T) {
	for _, sequence := range []string{"", "sequence of the retry"} {
		w := newTwin()
		retry := w.add(sequence, "retry")
		w.claim(1, false)
		w.s.hold(retry, w.now+time.Second)
		for i := range 5000 {
			w.add("", fmt.Sprint("new ", i))
			w.add(fmt.Sprint("sequence ", i%100), fmt.Sprint("new in a sequence ", i))
		}
		w.s.wake(w.now + 2*time.Second)
		w.claim(10, false)
		if retry.phase != claiming {
			t.Errorf("sequence %q: the retry is not among the first 10", sequence)
		}
		if n := len(w.in(claiming)); n != 10 {
			t.Errorf("sequence %q: %d claimed, want 10: what is new goes on beside it", sequence, n)
		}
	}
}
