package main

import (
	"strings"
	"testing"

	"github.com/ackledger/ackledger/internal/reliability"
)

// The tests that judge write nothing into the page of long runs: they are short, and may be wrong about what they count.
func TestJudgesRecordNothing(t *testing.T) {
	t.Setenv(reliability.Variable, "page.md")
	last := "unset"
	for _, v := range environment(1, "trace") {
		if value, ok := strings.CutPrefix(v, reliability.Variable+"="); ok {
			last = value // of several with one name the last counts
		}
	}
	if last != "" {
		t.Errorf("%s is %q for the tests that judge, want it empty", reliability.Variable, last)
	}
}
