package flow

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

func TestAskAgain(t *testing.T) {
	for _, c := range []struct {
		wait time.Duration
		asks int
		draw float64
		want time.Duration
	}{
		{0, 1, 0, minAsk},
		{-time.Hour, 1, 0, minAsk},
		{0, 2, 0, 2 * minAsk},
		{0, 100, 0, 2 * time.Second},
		{0, 0, 0, minAsk},
		{time.Nanosecond, 9, 0, minAsk},
		{3 * time.Second, 9, 0, 3 * time.Second},
		{3 * time.Second, 9, 0.5, 3150 * time.Millisecond},
		{time.Hour, 1, 0, maxAsk},
		{time.Hour, 1, 1, maxAsk + maxAsk/10},
	} {
		if got := AskAgain(c.wait, c.asks, c.draw); got != c.want {
			t.Errorf("wait %s, %d asks, draw %v: %s, want %s", c.wait, c.asks, c.draw, got, c.want)
		}
	}
}

// What does not want to wait is let go of where another would: its key is in hand, it is busy elsewhere, or its claim was
// refused. What may be ours is asked for all the same.
func TestWhatDoesNotWait(t *testing.T) {
	refused := ledger.Claim{Err: errors.New("refused")}
	for _, c := range []struct {
		answer ledger.Claim
		maybe  bool
	}{{maybe: false}, {maybe: true}, {refused, false}, {refused, true}} {
		answer, maybe := c.answer, c.maybe
		f := joined(Config{Concurrency: 2, BatchSize: 1, ClaimAhead: 10})
		first, copied, other := plainItem("", "a"), plainItem("", "a"), plainItem("", "b")
		first.NoWait, copied.NoWait, other.NoWait = true, true, true
		for _, it := range []*Item{first, copied, other} {
			f.Offer(0, it)
		}
		var c Claim
		if !f.NextClaim(0, &c) || !slices.Equal(c.Items, []*Item{first, other}) || !f.Pending() {
			t.Fatalf("claimed %v", c.Items)
		}
		f.End()
		if len(f.out) != 1 || f.out[0].Item != copied || f.out[0].Verdict != (Verdict{}) || copied.phase != finished || len(f.s.declined) != 0 {
			t.Errorf("behind another copy: %+v, phase %d", f.out, copied.phase)
		}
		f.out, other.maybe = nil, maybe
		f.Claimed(0, &c, []ledger.Claim{{Answer: ledger.Run, Token: 1}, answer}, nil)
		f.End()
		if gone := len(f.out) == 1 && f.out[0].Item == other && !f.out[0].Verdict.Ack; gone == maybe || first.phase != claimed {
			t.Errorf("answered %+v, may be ours %t: %+v, phase %d", answer, maybe, f.out, other.phase)
		}
	}
}

// Who is told of a mismatch has the end of it.
func TestMismatchIsTold(t *testing.T) {
	f := joined(Config{Concurrency: 1, ClaimAhead: 10, Told: true})
	it := plainItem("", "a")
	f.Offer(0, it)
	var call Claim
	f.NextClaim(0, &call)
	f.Claimed(0, &call, []ledger.Claim{{Answer: ledger.Mismatch}}, []*ledger.Archive{{}})
	if it.phase != finished || len(f.out) != 1 || !f.out[0].Verdict.Ack {
		t.Errorf("phase %d, %+v", it.phase, f.out)
	}
}

// With a bound of its own a flow asks for what is busy soon at first, and often all the time, whatever is known of the reason.
func TestAskMax(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Millisecond, time.Minute} {
		f := joined(Config{Concurrency: 1, BatchSize: 1, ClaimAhead: 10, AskMax: 500 * time.Millisecond})
		it := plainItem("", "a")
		f.Offer(0, it)
		now := time.Duration(0)
		for _, most := range []time.Duration{50, 100, 200, 400, 500, 500} {
			var c Claim
			if !f.NextClaim(now, &c) {
				t.Fatalf("nothing is claimed at %s", now)
			}
			f.Claimed(now, &c, []ledger.Claim{{Wait: wait, Held: wait > 0}}, nil)
			f.ClaimOver(&c)
			if most *= time.Millisecond; wait > 0 {
				most = min(most, max(wait, minAsk))
			}
			if rest := it.due - now; rest < most || rest > most+most/10 {
				t.Errorf("wait %s: asked again after %s, want %s", wait, rest, most)
			}
			now = it.due
			f.Wake(now)
		}
	}
}

// An item whose claim was not answered may be ours as long as its session lasts, and not once that is lost; it is claimable
// either way, and asked for before anything else while it may be ours.
func TestUnansweredClaimsAreDoubts(t *testing.T) {
	for _, lost := range []bool{false, true} {
		f := joined(Config{Concurrency: 1, ClaimAhead: 10})
		it := plainItem("", "a")
		f.Offer(0, it)
		var c Claim
		if !f.NextClaim(0, &c) || len(c.Items) != 1 || c.Items[0] != it || f.claiming != 1 {
			t.Fatalf("claimed %v", c.Items)
		}
		f.Unanswered(&c)
		c.Session.lost = lost
		f.Unclaimed(&c)
		f.ClaimOver(&c)
		if it.phase != queued || it.maybe == lost || f.claiming != 0 || (f.s.doubtQ.len() == 1) == lost {
			t.Errorf("lost %v: phase %d, may be ours %v, %d in doubt", lost, it.phase, it.maybe, f.s.doubtQ.len())
		}
	}
}

// A claim of what is new waits beside one that is under way until it is worth a call, and what may be ours does not wait.
func TestClaimsWaitUntilTheyAreWorthACall(t *testing.T) {
	f := joined(Config{Concurrency: 100, BatchSize: 1, ClaimAhead: 1000, Park: false})
	for i := range 40 {
		f.Offer(0, plainItem("", fmt.Sprint("first ", i)))
	}
	var first, second Claim
	if !f.NextClaim(0, &first) || len(first.Items) != 40 {
		t.Fatalf("claimed %d of 40", len(first.Items))
	}
	for i := range 9 {
		f.Offer(0, plainItem("", fmt.Sprint("second ", i)))
	}
	for n := 9; n < 11; n++ {
		limit, headsOnly := f.claimable(0)
		if want := n < 10; headsOnly != want {
			t.Errorf("beside 40, with %d that wait: %d may be claimed, only heads %v", n, limit, headsOnly)
		}
		f.Offer(0, plainItem("", fmt.Sprint("third ", n)))
	}
	if !f.NextClaim(0, &second) || f.claiming != 40+len(second.Items) {
		t.Errorf("%d are under way", f.claiming)
	}
	f.ClaimOver(&first)
	if f.ClaimOver(&second); f.claiming != 0 {
		t.Errorf("%d are under way when all is over", f.claiming)
	}
}

// What each answer makes of an item, whether its broker has it back or not.
func TestAnswersOfClaims(t *testing.T) {
	for name, c := range map[string]struct {
		a       ledger.Claim
		dropped bool
		phase   phase
	}{
		"run":                {ledger.Claim{Answer: ledger.Run}, false, claimed},
		"run, dropped":       {ledger.Claim{Answer: ledger.Run}, true, settling},
		"done":               {ledger.Claim{Answer: ledger.Done}, false, finished},
		"done, dropped":      {ledger.Claim{Answer: ledger.Done}, true, finished},
		"busy":               {ledger.Claim{Answer: ledger.Busy, Wait: time.Second}, false, waiting},
		"busy, dropped":      {ledger.Claim{Answer: ledger.Busy, Wait: time.Second}, true, finished},
		"suspect":            {ledger.Claim{Answer: ledger.Busy, Suspect: true}, false, suspect},
		"suspect, dropped":   {ledger.Claim{Answer: ledger.Busy, Suspect: true}, true, finished},
		"spent":              {ledger.Claim{Answer: ledger.Spent}, false, settling},
		"mismatch":           {ledger.Claim{Answer: ledger.Mismatch}, false, settling},
		"an error":           {ledger.Claim{Err: errors.New("no such key")}, false, waiting},
		"an error, dropped":  {ledger.Claim{Err: errors.New("no such key")}, true, finished},
		"no answer":          {ledger.Claim{}, false, waiting},
		"no answer, dropped": {ledger.Claim{}, true, finished},
	} {
		f := joined(Config{Concurrency: 1, ClaimAhead: 10})
		it := plainItem("", "a")
		f.Offer(0, it)
		var call Claim
		f.NextClaim(0, &call)
		it.dropped = c.dropped
		f.Claimed(0, &call, []ledger.Claim{c.a}, []*ledger.Archive{{}})
		if it.phase != c.phase {
			t.Errorf("%s: it is in phase %d, want %d", name, it.phase, c.phase)
		}
		if c.a.Err != nil && it.phase == waiting && it.due != maxAsk {
			t.Errorf("%s: what the ledger refuses is asked for again in %s, want %s", name, it.due, maxAsk)
		}
		acked := slices.ContainsFunc(f.out, func(fin Finished) bool { return fin.Verdict.Ack })
		if acked != (c.a.Answer == ledger.Done) {
			t.Errorf("%s: acknowledged %v", name, acked)
		}
	}
}
