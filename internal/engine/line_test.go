package engine

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
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

// logRecords are records of a log that were done before.
type logRecords int

func (r logRecords) Len() int             { return int(r) }
func (r logRecords) Keep(*Item)           {}
func (r logRecords) Offset(i int) int64   { return int64(i) }
func (r logRecords) Size(int) int64       { return 1 }
func (r logRecords) SentAt(int) time.Time { return time.Time{} }
func (r logRecords) Items(from, to int, _ []*Item) (out []*Item) {
	for i := from; i < to; i++ {
		out = append(out, &Item{Msg: &consumer.Message{}, Identity: Identity{
			Key: ledger.Key{Scope: "s", ID: []byte{byte(i)}, Pos: &ledger.Position{Log: "a", Offset: int64(i)}}}})
	}
	return out
}

// answers is an owner that answers for stretches what it is told to.
type answers struct {
	ledger.StretchOwner
	token uint64
	err   error
	again error // of items
	asked func()
}

func (a *answers) ID() string { return "owner" }

func (a *answers) ClaimStretches(context.Context, []ledger.Stretch) ([]uint64, error) {
	a.asked()
	return []uint64{a.token}, a.err
}

// Claim fails.
func (a *answers) Claim(context.Context, []ledger.Entry) ([]ledger.Claim, error) {
	a.asked()
	return nil, a.again
}

// askingFor is an engine, not started, that claims stretches of one log.
func askingFor(t *testing.T, a *answers) *Engine {
	e, _ := watched(t)
	e.opt.Concurrency, e.opt.ClaimAhead = 100, 1000
	e.sess, e.up, e.ranged = &session{stretches: a, ended: make(chan struct{})}, true, true
	return e
}

func (e *Engine) offers(log string, n int) {
	st := &Stretch{Records: logRecords(n), log: log, whole: true, n: n}
	st.Claim = ledger.Stretch{First: ledger.Entry{Key: ledger.Key{Pos: &ledger.Position{Log: log}}}, Last: int64(n - 1)}
	e.s.addStretch(st)
	e.s.stretchQ.push(st)
}

// A call for few costs the ledger as much as one for many: beside one that is under way they gather until they are as many.
func TestStretchesGatherBesideACall(t *testing.T) {
	a := &answers{token: 7}
	e := askingFor(t, a)
	a.asked = func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.offers("b", 10)
		if n := e.claimableStretches(); n != 0 {
			t.Errorf("%d are asked for beside 30, with 10 that wait", n)
		}
		e.offers("c", 20)
		if n := e.claimableStretches(); n != 170 {
			t.Errorf("%d are asked for beside 30, with 30 that wait, want 170", n)
		}
	}
	e.mu.Lock()
	e.offers("a", 30)
	if !e.claimStretches(e.claimableStretches()) || e.claiming != 0 || e.s.ahead != 30 {
		t.Errorf("%d are under way, %d ahead, when the call is over", e.claiming, e.s.ahead)
	}
}

// What the ledger leaves alone, or refuses to answer for, is ahead of no handler: its place is for what can run.
func TestStretchesThatAreNotOursAreNotAhead(t *testing.T) {
	for _, a := range []*answers{{}, {err: errors.New("away")}} {
		e := askingFor(t, a)
		a.asked = func() {}
		e.mu.Lock()
		e.offers("a", 30)
		if ok := e.claimStretches(30); ok != (a.err == nil) || e.s.ahead != 0 || e.s.claimQ.len() != 30 {
			t.Errorf("%v: %v, %d ahead, %d to be asked for one by one", a.err, ok, e.s.ahead, e.s.claimQ.len())
		}
	}
}

// A claim of stretches without an answer is repeated, one by one, once the sent one can change nothing any more, and a moment later.
func TestUnansweredStretchesAreAskedForLater(t *testing.T) {
	for again, taken := range map[error]bool{errors.New("away"): false, ledger.ErrLost: true} {
		synctest.Test(t, func(t *testing.T) {
			a := &answers{err: ledger.MarkUnknown(errors.New("no answer")), again: again}
			e := askingFor(t, a)
			e.sess.owner = a
			var asked []time.Time
			a.asked = func() { asked = append(asked, time.Now()) }
			e.mu.Lock()
			e.offers("a", 2)
			if e.claimStretches(2) != taken || len(asked) != 2 {
				t.Fatalf("%v: asked %d times, want 2, and that the ledger took the call: %v", again, len(asked), taken)
			}
			if waited := asked[1].Sub(asked[0]); waited < e.callTimeout()+50*time.Millisecond {
				t.Errorf("asked again after %s, what was sent counts for %s", waited, e.callTimeout())
			}
		})
	}
}

// A record of a stretch of which another copy is in hand is given back when the stretch is split: it does not run beside it.
func TestSplitGivesBackWhatAnotherCopyHas(t *testing.T) {
	e := askingFor(t, &answers{token: 7, asked: func() {}})
	e.mu.Lock()
	e.offers("a", 2)
	e.claimStretches(2)
	e.mu.Lock()
	other := logRecords(2).Items(1, 2, nil)[0]
	e.s.enter(other)
	e.s.holdKey(other)
	e.split("a")
	if e.settleQ.len() != 1 {
		t.Fatalf("%d are given back, want 1", e.settleQ.len())
	}
	if s := e.settleQ.pop(); s.kind != ledger.Release || !bytes.Equal(s.item.Key.ID, other.Key.ID) || s.sess != e.sess {
		t.Errorf("%v of %q", s.kind, s.item.Key.ID)
	}
}
