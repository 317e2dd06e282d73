package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/memory"
)

// What a drain leaves behind is named, and what is not named is counted.
func TestDrainErrorCountsTheRest(t *testing.T) {
	for more, want := range map[int]string{
		0: "drain: must end within 30s, still in hand: a, b", 1: "drain: must end within 30s, still in hand: a, b and 1 more",
	} {
		if got := (&DrainError{Limit: 30 * time.Second, IDs: []string{"a", "b"}, More: more}).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The oldest stall comes first: it is what has to be looked at, and the list is cut.
func TestOldestStallIsFirst(t *testing.T) {
	e, _ := watched(t)
	now := time.Now()
	for i := range maxStalls + 10 {
		e.refusals.kept[plainItem("", fmt.Sprint(i))] = &kept{since: now.Add(-time.Duration(i) * time.Second), why: errors.New("too large")}
	}
	stalled := e.Health().Stalled
	if len(stalled) != maxStalls || stalled[0].What != fmt.Sprint(maxStalls+9) {
		t.Fatalf("%d stalls, the first is %+v", len(stalled), stalled[0])
	}
	if !slices.IsSortedFunc(stalled, func(a, b consumer.Stall) int { return a.Since.Compare(b.Since) }) {
		t.Errorf("not in order: %+v", stalled)
	}
}

// Where a body that is too large stays is said: in the log alone, or in its place.
func TestLargeMessagesAreWarnedOf(t *testing.T) {
	r := refusals{large: 2, last: "order 17"}
	for retained, want := range map[bool]string{true: "its body stays in the log alone", false: "it is kept, and holds its place"} {
		if got := r.warnings(100, retained); len(got) != 1 || !strings.Contains(got[0], want) || !strings.Contains(got[0], "order 17") {
			t.Errorf("retained %v: %q, want %q", retained, got, want)
		}
	}
	if got := (&refusals{}).warnings(100, true); got != nil {
		t.Errorf("without any: %q", got)
	}
}

// A settlement that is refused again is repeated later each time, and those that wait for a suspect do not wait for it.
func TestRefusedSettlementsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := watched(t)
		it := plainItem("", "a")
		answered := make(chan struct{})
		it.extra().answered = answered
		s := &settlement{item: it, kind: ledger.Fail, more: &ledger.Settlement{}}
		ready := func() int {
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.settleQ.len()
		}
		var waits []time.Duration
		for n := range 4 {
			e.mu.Lock()
			e.hold(s, errors.New("refused"), false)
			e.mu.Unlock()
			began := time.Now()
			for ready() == n {
				time.Sleep(time.Millisecond)
				synctest.Wait()
			}
			waits = append(waits, time.Since(began))
		}
		for i := 1; i < len(waits); i++ {
			if waits[i] < waits[i-1]*3/2 {
				t.Errorf("it is repeated after %v, want longer each time", waits)
			}
		}
		select {
		case <-answered:
		default:
			t.Error("who waits for the suspect still waits")
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if it.extra().answered != nil {
			t.Error("it would be told twice")
		}
	})
}

// What may have been ours is not once its session has ended: another one asks for it as for any other.
func TestNothingMayBeOursAfterTheSession(t *testing.T) {
	for _, p := range []phase{queued, waiting, suspect} {
		e, _ := watched(t)
		it := plainItem("", "a")
		it.phase, it.maybe = p, true
		e.mu.Lock()
		e.loseItem(it)
		e.mu.Unlock()
		if it.maybe || it.phase != p {
			t.Errorf("phase %d: it may be ours: %v, phase %d", p, it.maybe, it.phase)
		}
	}
}

// A ledger that does not let a session leave is asked again, less and less often, and Health says why.
func TestLeavingIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("the ledger is away")
		e, _ := watched(t)
		var live context.CancelFunc
		e.gone, live = context.WithCancel(t.Context())
		defer live()
		l := memory.New()
		o, err := l.Join(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		var asked []time.Time
		l.FailBefore(func(_ context.Context, op memory.Op) error {
			if asked = append(asked, time.Now()); op != memory.Leave || len(asked) > 4 {
				return nil
			}
			return away
		})
		if !e.leave(&session{owner: o}) || len(asked) != 5 {
			t.Fatalf("asked %d times, want 5", len(asked))
		}
		wantSpaced(t, asked)
		if !errors.Is(e.lastErr, away) {
			t.Errorf("the last error is %v", e.lastErr)
		}
	})
}

// A ledger that cannot be joined again is asked less and less often, and Health says why.
func TestRejoiningIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, logs := watched(t)
		away, tries, joins := errors.New("the ledger is away"), []time.Time{}, memory.New()
		joins.FailBefore(func(_ context.Context, op memory.Op) error {
			if op != memory.Join {
				return nil
			}
			if tries = append(tries, time.Now()); len(tries) > 4 {
				return nil
			}
			if known := errors.Is(e.lastErr, away); known != (len(tries) > 1) {
				t.Errorf("try %d: the last error is %v", len(tries), e.lastErr)
			}
			return away
		})
		e.cfg.Ledger = joins
		var live context.CancelFunc
		e.gone, live = context.WithCancel(t.Context())
		defer live()
		if e.rejoin() == nil || len(tries) != 5 {
			t.Fatalf("tried %d times, want 5", len(tries))
		}
		wantSpaced(t, tries)
		if n := logs.FilterMessage("cannot join the ledger").Len(); n != 4 {
			t.Errorf("%d were logged, want 4", n)
		}
	})
}

// wantSpaced expects each call to come later than the one before it did, as outages do.
func wantSpaced(t *testing.T, calls []time.Time) {
	t.Helper()
	for i := 1; i < len(calls); i++ {
		if wait, low := calls[i].Sub(calls[i-1]), 50*time.Millisecond<<(i-1); wait < low {
			t.Errorf("call %d came after %s, want at least %s", i, wait, low)
		}
	}
}

// After calls that the ledger does not take, one after the other, a loop rests for longer each time; not after a success.
func TestRestsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := watched(t)
		failed, calls := 0, []time.Time{time.Now()}
		for range 4 {
			failed = e.rest(failed, false)
			calls = append(calls, time.Now())
		}
		wantSpaced(t, calls)
		began := time.Now()
		if failed = e.rest(failed, true); failed != 0 || time.Since(began) != 0 {
			t.Errorf("after a success: %d failed, rested %s", failed, time.Since(began))
		}
		if e.rest(failed, false); time.Since(began) > 100*time.Millisecond {
			t.Errorf("the first failure after it costs %s", time.Since(began))
		}
	})
}

// A claim without an answer is repeated once the sent one can change nothing any more, and later each time.
func TestUnansweredClaimsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := watched(t)
		l := memory.New()
		o, err := l.Join(t.Context(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		e.sess = &session{owner: o, ended: make(chan struct{})}
		var asked []time.Time
		l.FailAfter(func(_ context.Context, op memory.Op) error {
			if asked = append(asked, time.Now().Add(-e.callTimeout()*time.Duration(len(asked)))); len(asked) > 4 {
				return nil
			}
			return ledger.MarkUnknown(errors.New("no answer"))
		})
		it := plainItem("", "a")
		e.s.add(it)
		if !e.ask(e.sess, &claimBuf{items: e.s.takeClaims(1, false, nil)}, false) || len(asked) != 5 {
			t.Fatalf("asked %d times, want 5", len(asked))
		}
		wantSpaced(t, asked) // beside the time for which the sent one may still change something
	})
}

// Leaving a session waits for its own handlers, as long as they may take, and for no other's.
func TestLeavingWaitsForTheHandlersOfTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := watched(t)
		e.gone = t.Context()
		mine, other := &session{}, &session{}
		it := plainItem("", "a")
		it.sess = mine
		c := e.newChunk([]*Item{it}, false, nil)
		c.next.Store(1)
		took := func(sess *session) time.Duration {
			began := time.Now()
			e.settleDown(sess)
			return time.Since(began)
		}
		if d := took(other); d != 0 {
			t.Errorf("waited %s for a handler of another session", d)
		}
		if d, limit := took(mine), e.opt.Lease/3; d < limit || d > limit+time.Second {
			t.Errorf("waited %s for one that goes on, want %s", d, limit)
		}
		time.AfterFunc(time.Second, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			c.applied = 1
		})
		if d := took(mine); d < time.Second || d > 2*time.Second {
			t.Errorf("waited %s for one that ends after a second", d)
		}
	})
}

// What succeeded behind another of its lane is settled with it, and with the result that was set.
func TestEarlySuccessesKeepTheirResults(t *testing.T) {
	for _, result := range []string{"", "result"} {
		e, _ := watched(t)
		sess, a, b := &session{}, plainItem("l", "a"), plainItem("l", "b")
		for it, p := range map[*Item]phase{a: settling, b: running} {
			e.s.add(it)
			it.sess, it.phase = sess, p
		}
		a.next, b.next = b, nil
		b.extra().early = &early{}
		if result != "" {
			b.extra().early.result = []byte(result)
		}
		batch, _ := e.takeEarly([]settlement{{item: a, sess: sess, kind: ledger.Succeed}}, 0)
		if len(batch) != 2 || (batch[1].more == nil) != (result == "") || result != "" && string(batch[1].more.Result) != result {
			t.Errorf("%q: %d together, %+v", result, len(batch), batch[len(batch)-1].more)
		}
	}
}

// Whoever waits for room is told once that there is some, not by each step after it.
func TestRoomIsToldOfOnce(t *testing.T) {
	e, _ := watched(t)
	e.mu.Lock()
	e.s.eased = true
	e.unlock()
	waits := e.Changed()
	e.mu.Lock()
	e.unlock()
	select {
	case <-waits:
		t.Error("told of room that nobody made")
	default:
	}
}

// A drain whose time is up names what is still in hand: what the broker does not have back, and what still runs or is settled.
func TestDrainNamesWhatIsInHand(t *testing.T) {
	e, _ := watched(t)
	for id, c := range map[string]struct {
		told  bool
		phase phase
	}{"given back": {true, queued}, "runs": {true, running}, "is settled": {true, settling}, "waits": {false, waiting}, "began": {false, running}} {
		it := plainItem("", id)
		it.told, it.phase = c.told, c.phase
		e.enlist(it)
	}
	var stuck *DrainError
	if !errors.As(e.cancelRunning(), &stuck) {
		t.Fatal("nothing is in hand")
	}
	if slices.Sort(stuck.IDs); !slices.Equal(stuck.IDs, []string{"began", "is settled", "runs", "waits"}) {
		t.Errorf("%q", stuck.IDs)
	}
}

// A suspect that is gone when its turn comes is no failure: nothing is rested for, and its place is free.
func TestSuspectThatIsGoneIsNoFailure(t *testing.T) {
	e, _ := watched(t)
	e.cfg.Suspects = consumer.NewLimiter(1)
	for range 3 {
		if err := e.cfg.Suspects.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !e.runSuspect() {
			t.Error("it counts as a failure")
		}
	}
}

// fickle is a dead-letter target that is away for a while.
type fickle struct{ away error }

func (f *fickle) String() string                                      { return "fickle" }
func (f *fickle) Publish(context.Context, *consumer.DeadLetter) error { return f.away }
func (f *fickle) Source(context.Context) (string, error)              { return "", nil }
func (f *fickle) Retention(context.Context) (time.Duration, error)    { return time.Hour, nil }

// A target that no try reaches is away until a dead letter gets through, and not because it refuses one for good.
func TestTargetIsAwayUntilALetterGetsThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, logs := watched(t)
		e.base, e.letters.ctx = t.Context(), t.Context()
		target := &fickle{}
		e.letters.target, e.letters.calls = target, make(chan struct{}, 1)
		e.opt.DeadLetterTries, e.opt.DeadLetterTimeout = 2, time.Second
		for i, c := range []struct {
			err        error
			away, sent bool
			said       string
		}{
			{nil, false, true, ""},
			{consumer.Terminal(errors.New("too large")), false, false, "dead letter not published"},
			{errors.New("away"), true, false, "the dead-letter target is away"},
			{errors.New("away"), true, false, "dead letter not published"},
			{nil, false, true, "dead letters are published again"},
		} {
			target.away = c.err
			logs.TakeAll()
			it := plainItem("", "a")
			s := &settlement{item: it, sess: &session{ended: make(chan struct{})}, kind: ledger.Fail, more: &ledger.Settlement{Dead: &ledger.Archive{Key: it.Key}}}
			e.publishLetter(s)
			said := ""
			for _, entry := range logs.All() {
				said += entry.Message + "\n"
			}
			if e.letters.away != c.away || s.more.Dead.Sent != c.sent || !strings.Contains(said, c.said) || (said == "") != (c.said == "") {
				t.Errorf("%d: away %v, sent %v, said %q; want %v, %v, %q", i, e.letters.away, s.more.Dead.Sent, said, c.away, c.sent, c.said)
			}
		}
	})
}
