package replay

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// TestStepsAreNamed: reports and logs name a step by its word.
func TestStepsAreNamed(t *testing.T) {
	for step, want := range map[Step]string{
		Leave: "leave", Send: "send", Drop: "drop", Refuse: "refuse", Mismatch: "mismatch", Mismatch + 1: "invalid",
	} {
		if got := step.String(); got != want {
			t.Errorf("step %d is %q, want %q", step, got, want)
		}
	}
}

// TestPlanOfAMendedBody: a letter with the body from before its message was mended is not sent, whatever became of the message;
// one with the body of now is as any other.
func TestPlanOfAMendedBody(t *testing.T) {
	now, before := ledger.BodyFingerprint([]byte("now")), ledger.BodyFingerprint([]byte("before"))
	for name, c := range map[string]struct {
		letter, row ledger.Fingerprint
		state       ledger.State
		want        Decision
	}{
		"before, failed":            {before, now, ledger.Failed, Decision{Step: Leave, Reason: Mended}},
		"before, pending":           {before, now, ledger.Pending, Decision{Step: Leave, Reason: Mended}},
		"before, succeeded":         {before, now, ledger.Succeeded, Decision{Step: Drop, Reason: Succeeded}},
		"now, failed":               {now, now, ledger.Failed, Decision{Step: Send, Reason: Failed, Token: 4}},
		"the row's is not known":    {now, ledger.Fingerprint{}, ledger.Failed, Decision{Step: Send, Reason: Failed, Token: 4}},
		"now, succeeded, and known": {now, now, ledger.Succeeded, Decision{Step: Drop, Reason: Succeeded}},
	} {
		got := Plan(Case{Identified: true, Vouched: true, Fingerprint: c.letter, Mended: true, Status: ledger.Status{State: c.state, Token: 4, Fingerprint: c.row}})
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestBudgetIsGivenBack: whoever waits for room goes on when some is given back, and one letter that is larger than all passes
// alone.
func TestBudgetIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10)
		took := make(chan int, 3)
		take := func(n int) {
			if b.take(t.Context(), n) {
				took <- n
			}
		}
		want := func(n int) {
			t.Helper()
			synctest.Wait()
			if len(took) != n {
				t.Fatalf("%d have taken, want %d", len(took), n)
			}
		}
		take(10)
		go take(4)
		want(1)
		b.give(3)
		want(1)
		b.give(1)
		want(2)
		go take(11)
		b.give(6)
		want(2) // 4 are in hand
		b.give(4)
		want(3)
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if b.take(late, 1) {
			t.Error("there is room beside one that is larger than all")
		}
	})
}

// TestPlacesInIDs: a record's id ends with its partition and offset, whatever the topic's name is.
func TestPlacesInIDs(t *testing.T) {
	for id, want := range map[string][2]int64{
		"orders-1-5": {1, 5}, "or-ders-12-0": {12, 0}, "-1-5": {1, 5}, "1-5": {1, 5}, "orders-x-5": {}, "orders-1-x": {}, "orders": {}, "": {},
		"orders-3000000000-5": {},
	} {
		if p, o := placeOf([]byte(id)); int64(p) != want[0] || o != want[1] {
			t.Errorf("%q: partition %d, offset %d, want %v", id, p, o, want)
		}
	}
}

// TestPositionsInDeliveries: a delivery of Kafka names the log, the leader epoch and the offset, also once it was reopened.
func TestPositionsInDeliveries(t *testing.T) {
	for delivery, want := range map[string]string{
		"cluster/topic/3/2/7":            "cluster/topic/3 2 7",
		"reopened:9:cluster/topic/3/2/7": "cluster/topic/3 2 7",
		"reopened:9":                     "", "cluster/topic/3/2/-7": "", "cluster/topic/3/x/7": "", "cluster/topic/2/7": "", "": "",
		"cluster/topic/3/3000000000/7": "",
	} {
		got := ""
		if pos := positionOf([]byte(delivery)); pos != nil {
			got = fmt.Sprint(pos.Log, " ", pos.Epoch, " ", pos.Offset)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", delivery, got, want)
		}
	}
}

// TestScopeOfTheLetterBefore: it is used again for the same source and consumer, and for no other.
func TestScopeOfTheLetterBefore(t *testing.T) {
	var last scoped
	for _, c := range [][2]string{{"arn:a", "x"}, {"arn:a", "x"}, {"arn:a", "y"}, {"arn:b", "y"}, {"cluster/t", "y"}, {"arn:a", "x"}} {
		if got, want := last.of(c[0], c[1]), Scope(c[0], c[1]); got != want {
			t.Errorf("%v: %s, want %s", c, got, want)
		}
	}
}

func counting() *runner {
	return &runner{report: Report{Reasons: map[Reason]int64{}, Targets: map[string]int64{}}, total: -1}
}

// TestSamplesAreFew: every letter is counted, and twenty of those that stay are shown.
func TestSamplesAreFew(t *testing.T) {
	r := counting()
	for range maxSamples + 5 {
		r.count(&Letter{decision: Decision{Step: Refuse, Reason: nobody}}, nil)
	}
	r.count(&Letter{decision: Decision{Step: Send, Reason: Failed}}, &Result{Outcome: Sent})
	if rep := r.report; len(rep.Samples) != maxSamples || rep.Refused != maxSamples+5 || rep.Replayed != 1 || rep.Read != maxSamples+6 {
		t.Errorf("%d samples; %+v", len(rep.Samples), rep)
	}
}

// TestWhatATargetLeavesIsLeft: a letter that its target kept without an error is left, for the target's reason, and is shown.
func TestWhatATargetLeavesIsLeft(t *testing.T) {
	r := counting()
	r.count(&Letter{decision: Decision{Step: Send, Reason: Failed}}, &Result{Reason: Live})
	rep := r.report
	if rep.Left != 1 || rep.Replayed != 0 || rep.Failed != 0 || rep.Reasons[Live] != 1 || rep.Complete() {
		t.Errorf("%+v", rep)
	}
	if want := (Sample{Step: "failed", Reason: string(Live)}); len(rep.Samples) != 1 || rep.Samples[0].Reason != want.Reason {
		t.Errorf("samples %+v", rep.Samples)
	}
}

// TestProgressOfNothing: a run that has just begun, or has nothing to do, has a rate of 0 and no estimate.
func TestProgressOfNothing(t *testing.T) {
	r := counting()
	r.report.Began = time.Now()
	r.seen.Store(3)
	r.report.Read = 3
	if p := r.progress(nil, r.report.Began); p.Rate != 0 || p.Total != -1 || p.Left >= 0 {
		t.Errorf("%+v", p)
	}
	r.total = 0 // more came than were counted
	if p := r.progress(nil, r.report.Began.Add(time.Second)); p.Total != 3 || p.Rate != 3 || p.Left != 0 {
		t.Errorf("%+v", p)
	}
}

// TestReportSaysWhyItStopped: and nothing of that if it did not.
func TestReportSaysWhyItStopped(t *testing.T) {
	for stopped, want := range map[string]bool{"too many errors": true, "": false} {
		text := (&Report{Stopped: stopped}).Text()
		if strings.HasSuffix(text, "stopped: "+stopped+"\n") != want || strings.Contains(text, "stopped") != want {
			t.Errorf("%q: %s", stopped, text)
		}
	}
}

// TestRateHasBounds: the lowest and the highest are allowed, and no rate at all.
func TestRateHasBounds(t *testing.T) {
	for rate, allowed := range map[float64]bool{0: true, minRate: true, maxRate: true, minRate / 2: false, maxRate * 2: false, -1: false} {
		if _, err := (Config{By: ledger.By{Actor: "tester"}, Rate: rate}).withDefaults(); (err == nil) != allowed {
			t.Errorf("rate %v: %v", rate, err)
		}
	}
}
