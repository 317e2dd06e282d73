package main

import (
	"strings"
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

// Steps that a handler has recorded are shown without their results.
func TestShowSteps(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s *store) {
		c := s.claim(testScope, "o1")[0]
		s.settle([]ledger.Settlement{
			{Ticket: c.Ticket, Kind: ledger.RecordStep, Step: &ledger.Step{Name: "charge", Result: []byte(`"ch_1234"`)}},
			{Ticket: c.Ticket, Kind: ledger.RecordStep, Step: &ledger.Step{Name: "ship", Result: []byte("no such street"), Failed: true}},
		})
		out := s.run("show", "o1", "--body")
		for _, want := range []string{"charge, 9 B\n", "ship, 14 B, failed for good\n"} {
			if !strings.Contains(out, want) || strings.Contains(out, "ch_1234") {
				t.Errorf("show lacks %q, or prints a result:\n%s", want, out)
			}
		}
		one := jsonLines[shown](t, s.run("show", "o1", "--json"))
		if len(one) != 1 || len(one[0].Steps) != 2 || one[0].Steps[0].Name != "charge" || one[0].Steps[0].Bytes != 9 || one[0].Steps[0].Failed ||
			one[0].Steps[0].At == nil || !one[0].Steps[1].Failed {
			t.Errorf("%+v", one)
		}
	})
}
