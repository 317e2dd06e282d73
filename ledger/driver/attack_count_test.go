package driver_test

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// The pass that dissolves a range whose owner died counts what is left of it as pending: nobody has finished it.
func TestSweep_DissolvedIsPending(t *testing.T) {
	w := newWorld(t)
	dead := w.join(t)
	w.claim(t, dead, ledger.Run, record(1), record(2))
	w.pass(t, 2*time.Hour)
	for i := range 2 {
		report, err := w.Sweep(t.Context(), ledger.MaintainConfig{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := w.Stats(t.Context())
		if err != nil || len(s.Scopes) != 1 || s.Scopes[0].Pending != 2 || s.Scopes[0].Succeeded != 0 || report.Abandoned != 2 {
			t.Errorf("pass %d: %d abandoned, %+v, %v; two messages are pending", i+1, report.Abandoned, s.Scopes, err)
		}
	}
}

// The pass that takes a row away whose message a range has counts the message once.
func TestSweep_FoldedCountsOnce(t *testing.T) {
	w := newWorld(t)
	run := w.claim(t, w.o, ledger.Run, record(1), record(2))
	w.settle(t, ledger.Settlement{Ticket: run[1].Ticket, Kind: ledger.Succeed})
	w.settle(t, ledger.Settlement{Ticket: run[0].Ticket, Kind: ledger.Release, Count: true, Failure: ledger.AttemptError{Attempt: 1, Kind: ledger.KindError, Error: "x"}})
	again := w.claim(t, w.o, ledger.Run, record(1))[0]
	w.settle(t, ledger.Settlement{Ticket: again.Ticket, Kind: ledger.Succeed})
	for i := range 3 {
		if _, err := w.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil {
			t.Fatal(err)
		}
		s, err := w.Stats(t.Context())
		if err != nil || len(s.Scopes) != 1 || s.Scopes[0].Succeeded != 2 {
			t.Errorf("pass %d: %+v, %v; two messages have succeeded", i+1, s.Scopes, err)
		}
		w.pass(t, 6*time.Minute)
	}
}
