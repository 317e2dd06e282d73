package driver_test

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// A group's offsets are set back: a worker fetches records that were finished long ago, at the start of the log, and has them in
// hand. Then the broker drops what lies there, and the worker's next poll tells of the new start. What it has in hand is still known:
// what lies below the start goes an hour later (docs/design.md §10), not at once.
func TestTrim_WhatIsInHand(t *testing.T) {
	w := newWorld(t)
	old := []ledger.Entry{record(1), record(2), record(3)}
	for i := range old {
		old[i].Window = 24 * time.Hour
	}
	for _, run := range w.claim(t, w.o, ledger.Run, old...) {
		w.settle(t, ledger.Settlement{Ticket: run.Ticket, Kind: ledger.Succeed})
	}
	next := func(offset, first int64) ledger.Entry { // of the next leader epoch
		e := record(offset)
		e.Window, e.Key.Pos.Epoch, e.Key.Pos.First = 24*time.Hour, 1, first
		return e
	}
	w.claim(t, w.o, ledger.Run, next(4, 0))
	w.pass(t, 61*time.Minute)
	b := w.join(t)
	w.claim(t, b, ledger.Done, old[0])      // all three are in its hands; the first is asked for
	w.claim(t, b, ledger.Run, next(60, 50)) // the log begins at 50 since a moment ago
	w.claim(t, b, ledger.Done, old[1])
}
