package engine

import (
	"slices"
	"testing"
)

// TestStretchesOfALogAreClaimedInOneCallAtATime: a stretch whose log is being claimed waits in the queue, not in a call that
// would wait in the ledger with the stretches of other logs. Those of one log that stand there together go together.
func TestStretchesOfALogAreClaimedInOneCallAtATime(t *testing.T) {
	s := newSched()
	offer := func(log string) *Stretch {
		st := &Stretch{log: log, whole: true, n: 10}
		s.addStretch(st)
		s.stretchQ.push(st)
		return st
	}
	answered := func(st *Stretch) {
		s.lines[st.log].claiming--
		st.phase = claimed
	}
	take := func(n int, want ...*Stretch) {
		t.Helper()
		if got := s.claimableStretches(); got != 10*len(want) {
			t.Errorf("%d records may be claimed, want %d", got, 10*len(want))
		}
		if got := s.takeStretches(n, nil); !slices.Equal(got, want) {
			t.Errorf("took %v, want %v", got, want)
		}
	}
	a1, a2 := offer("a"), offer("a")
	take(100, a1, a2)
	a3, b1 := offer("a"), offer("b")
	take(100, b1)
	take(100)
	answered(a1)
	take(100)
	answered(a2)
	take(100, a3)
}
