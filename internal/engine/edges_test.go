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
	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/ledger"
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
	e, _ := watched(t, func(o *consumer.Options) { o.Breaker.Off = true })
	e.joins(nil)
	for i := range maxStalls + 10 {
		e.runs(plainItem(fmt.Sprint(i)), flow.Outcome{More: &ledger.Settlement{Kind: ledger.Fail, Dead: &ledger.Archive{}}})
		e.settles(-time.Duration(i)*time.Second, &ledger.InvalidError{})
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
	for retained, want := range map[bool]string{true: "its body stays in the log alone", false: "it is kept, and holds its place"} {
		n := notes{large: 2, last: "order 17", limit: 100, retained: retained}
		if got := n.warnings(); len(got) != 1 || !strings.Contains(got[0], want) || !strings.Contains(got[0], "order 17") {
			t.Errorf("retained %v: %q, want %q", retained, got, want)
		}
	}
	if got := (&notes{limit: 100, retained: true}).warnings(); got != nil {
		t.Errorf("without any: %q", got)
	}
}

// A worker whose hands are full of large messages says so: nothing is polled, and nothing is wrong.
func TestCrowdOfLargeMessagesIsWarnedOf(t *testing.T) {
	e, _ := watched(t, func(o *consumer.Options) { o.MaxHeldBytes = 1000 })
	for n, warned := range []bool{false, false, true} {
		if got := strings.Contains(fmt.Sprint(e.Health().Warnings), "larger than a quarter of Options.MaxHeldBytes"); got != warned {
			t.Errorf("with %d large messages in hand: warned %v", n, got)
		}
		it := plainItem(fmt.Sprint(n))
		it.Size = 1100
		e.Offer([]*Item{it})
	}
}

// A drain whose time is up names what is still in hand, ten at most, and counts the others.
func TestDrainNamesTenAtMost(t *testing.T) {
	e, _ := watched(t)
	for i := range 13 {
		e.Offer([]*Item{plainItem(fmt.Sprint(i))})
	}
	var stuck *DrainError
	if !errors.As(e.cancelRunning(), &stuck) || len(stuck.IDs) != 10 || stuck.More != 3 || stuck.Limit != e.opt.Drain {
		t.Errorf("%+v", stuck)
	}
}

// Whoever waits for room is told once that there is some, not by each step after it.
func TestRoomIsToldOfOnce(t *testing.T) {
	e, _ := watched(t)
	waits := e.Changed()
	e.do(func(f *flow.Flow, _ time.Duration) { f.Resume() })
	select {
	case <-waits:
	default:
		t.Error("nobody is told of room")
	}
	waits = e.Changed()
	e.do(func(*flow.Flow, time.Duration) {})
	select {
	case <-waits:
		t.Error("told of room that nobody made")
	default:
	}
}

// A suspect that is gone when its turn comes is no failure: nothing is rested for, and its place is free.
func TestSuspectThatIsGoneIsNoFailure(t *testing.T) {
	e, _ := watched(t)
	e.apart.places = consumer.NewLimiter(1)
	for range 3 {
		if err := e.apart.places.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !e.apart.runSuspect() {
			t.Error("it counts as a failure")
		}
	}
}

// fickle is a dead-letter target that is away for a while.
type fickle struct {
	away  error
	asked int
}

func (f *fickle) String() string                                   { return "fickle" }
func (f *fickle) Source(context.Context) (string, error)           { return "", nil }
func (f *fickle) Retention(context.Context) (time.Duration, error) { return time.Hour, nil }

func (f *fickle) Publish(context.Context, *consumer.DeadLetter) error {
	f.asked++
	return f.away
}

// A target that no try reaches is away until a dead letter gets through, and not because it refuses one for good.
func TestTargetIsAwayUntilALetterGetsThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, logs := watched(t)
		target := &fickle{}
		p := e.publisher
		p.ctx, p.target, p.calls = t.Context(), target, make(chan struct{}, 1)
		p.cfg.Options.DeadLetterTries, p.cfg.Options.DeadLetterTimeout = 2, time.Second
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
			it := plainItem("a")
			more := &ledger.Settlement{Dead: &ledger.Archive{Key: it.Key}}
			p.publishLetter(&flow.Settlement{Item: &it.Item, Session: &newSession(nil).flow, Kind: ledger.Fail, More: more})
			said := ""
			for _, entry := range logs.All() {
				said += entry.Message + "\n"
			}
			if e.flow.TargetAway() != c.away || more.Dead.Sent != c.sent || !strings.Contains(said, c.said) || (said == "") != (c.said == "") {
				t.Errorf("%d: away %v, sent %v, said %q; want %v, %v, %q", i, e.flow.TargetAway(), more.Dead.Sent, said, c.away, c.sent, c.said)
			}
		}
	})
}
