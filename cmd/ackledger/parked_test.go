package main

import (
	"strings"
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

func TestParkedSelectionInWords(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]ledger.ParkedReport{
		"0 parked messages are selected": {},
		"1 parked message is selected":   {Matched: 1},
		"3 parked messages are selected; workers are handling 1 of them, which will not be changed": {Matched: 3, Left: 1},
	} {
		if got := selectedText(r); got != want {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
	}
}

// What is due now runs a while later: the report says how long that takes, else it is taken for stuck.
func TestParkedRunSaysWhenItRuns(t *testing.T) {
	t.Parallel()
	cmd, _, err := newParkedCommand(new(target)).Find([]string{"run"})
	if err != nil || !strings.Contains(cmd.Long, "within a third of its lease") {
		t.Fatalf("%v: %s", err, cmd.Long)
	}
	p := &changeParked{action: ledger.ActionRunNow, done: "due now", then: parkedRuns}
	var out strings.Builder
	if err := p.report(&out, ledger.ParkedReport{Matched: 1, Changed: 1}, false); err != nil || !strings.Contains(out.String(), "within a third of its lease") {
		t.Errorf("%v: %s", err, &out)
	}
	out.Reset()
	if err := p.report(&out, ledger.ParkedReport{Matched: 1, Left: 1}, false); err != nil || strings.Contains(out.String(), "lease") {
		t.Errorf("nothing was changed: %v: %s", err, &out)
	}
}
