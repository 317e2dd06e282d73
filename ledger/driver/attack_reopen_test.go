package driver_test

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
)

// pass lets time go by with beats.
func (w *world) pass(t *testing.T, d time.Duration) {
	t.Helper()
	for ; d > 0; d -= 20 * time.Second {
		w.now = w.now.Add(20 * time.Second)
		if _, err := w.o.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) reopen(t *testing.T, e ledger.Entry) {
	t.Helper()
	r, err := w.Reopen(t.Context(), ledger.ReopenRequest{Filter: ledger.Filter{Scope: "s", IDs: [][]byte{e.Key.ID}}, By: ledger.By{Actor: "t"}})
	if err != nil || r.Reopened != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// A message that is covered by a range succeeds in a row, which is to go in ten minutes. It is reopened: its window is that of a
// message, not what was left of ten minutes.
func TestReopen_WindowOfWhatWasFolded(t *testing.T) {
	w := newWorld(t)
	e := record(7)
	e.Window = 24 * time.Hour
	run := w.claim(t, w.o, ledger.Run, e)[0]
	w.settle(t, ledger.Settlement{Ticket: run.Ticket, Kind: ledger.Release, Count: true, Failure: ledger.AttemptError{Attempt: 1, Kind: ledger.KindError, Error: "x"}})
	run = w.claim(t, w.o, ledger.Run, e)[0]
	w.settle(t, ledger.Settlement{Ticket: run.Ticket, Kind: ledger.Succeed})
	w.reopen(t, e)
	w.pass(t, 30*time.Minute)
	report, err := w.Sweep(t.Context(), ledger.MaintainConfig{})
	if err != nil || report.Abandoned > 0 {
		t.Errorf("half an hour after a message with a window of a day was reopened: %+v, %v", report.Oldest, err)
	}
	var m *driver.Message
	w.write(t, func(tx driver.Tx) (err error) { m, err = tx.Message(e.Key.Sum(), nil); return err })
	if left := m.Expiry.Sub(w.now); left < 23*time.Hour {
		t.Errorf("its row expires in %s", left)
	}
}

// A message with a result has a row for its window. Its log is cut above it, it is reopened, and succeeds once more: nothing but
// the row knows of it, so the row is to stay for the window.
func TestReopen_BelowTheCutRunsOnce(t *testing.T) {
	w := newWorld(t)
	e := record(7)
	e.Window = 24 * time.Hour
	run := w.claim(t, w.o, ledger.Run, e)[0]
	w.settle(t, ledger.Settlement{Ticket: run.Ticket, Kind: ledger.Succeed, Result: []byte("r")})
	for i, first := range []int64{0, 50, 50, 50} { // the log goes on, and begins above the message
		next := record(100 + int64(i))
		next.Window, next.Key.Pos.First = 24*time.Hour, first
		w.settle(t, ledger.Settlement{Ticket: w.claim(t, w.o, ledger.Run, next)[0].Ticket, Kind: ledger.Succeed})
		w.pass(t, 65*time.Minute)
		if _, err := w.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil {
			t.Fatal(err)
		}
	}
	w.claim(t, w.o, ledger.Done, e)
	w.reopen(t, e)
	cp := e
	cp.Ranged, cp.Copy, cp.Delivery = false, true, []byte("copy")
	run = w.claim(t, w.o, ledger.Run, cp)[0]
	w.settle(t, ledger.Settlement{Ticket: run.Ticket, Kind: ledger.Succeed})
	w.claim(t, w.o, ledger.Done, cp)
	w.pass(t, 15*time.Minute)
	if _, err := w.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil {
		t.Fatal(err)
	}
	w.claim(t, w.o, ledger.Done, cp) // a second copy of it
}

// The row of a message in a range had higher tokens than any range, and has gone; then the log is cut above it. Who brings it again
// gets a token above those that it had: Reopen sees to that, the cut does not.
func TestCut_TokensGrow(t *testing.T) {
	w := newWorld(t)
	e := record(7)
	e.Window = 24 * time.Hour
	run := w.claim(t, w.o, ledger.Run, e)[0]
	for range 9 {
		w.settle(t, ledger.Settlement{Ticket: run.Ticket, Kind: ledger.Release, Count: true, Failure: ledger.AttemptError{Attempt: 1, Kind: ledger.KindError, Error: "x"}})
		run = w.claim(t, w.o, ledger.Run, e)[0]
	}
	w.settle(t, ledger.Settlement{Ticket: run.Ticket, Kind: ledger.Succeed})
	for i, first := range []int64{0, 50, 50, 50} {
		next := record(100 + int64(i))
		next.Window, next.Key.Pos.First = 24*time.Hour, first
		w.settle(t, ledger.Settlement{Ticket: w.claim(t, w.o, ledger.Run, next)[0].Ticket, Kind: ledger.Succeed})
		w.pass(t, 65*time.Minute)
		if _, err := w.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil {
			t.Fatal(err)
		}
	}
	cp := e
	cp.Ranged, cp.Copy, cp.Delivery = false, true, []byte("copy")
	if again := w.claim(t, w.o, ledger.Run, cp)[0]; again.Token <= run.Token {
		t.Errorf("token %d after token %d", again.Token, run.Token)
	}
}

// A message that was reopened fails for good, and is purged. The same delivery comes again within its window: what was acknowledged
// is over.
func TestReopen_FailedIsOver(t *testing.T) {
	w := newWorld(t)
	e := record(7)
	e.Window = 24 * time.Hour
	run := w.claim(t, w.o, ledger.Run, e)[0]
	w.settle(t, ledger.Settlement{Ticket: run.Ticket, Kind: ledger.Release, Count: true, Failure: ledger.AttemptError{Attempt: 1, Kind: ledger.KindError, Error: "x"}})
	run = w.claim(t, w.o, ledger.Run, e)[0]
	w.settle(t, ledger.Settlement{Ticket: run.Ticket, Kind: ledger.Succeed})
	w.reopen(t, e)
	run = w.claim(t, w.o, ledger.Run, e)[0]
	w.settle(t, ledger.Settlement{Ticket: run.Ticket, Kind: ledger.Fail, Dead: &ledger.Archive{Key: e.Key, Delivery: e.Delivery, Kind: ledger.KindError, Keep: 72 * time.Hour, Body: []byte("body")}})
	w.claim(t, w.o, ledger.Done, e)
	if r, err := w.Purge(t.Context(), ledger.PurgeRequest{By: ledger.By{Actor: "t"}}); err != nil || r.Purged != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	w.claim(t, w.o, ledger.Done, e)
	w.pass(t, 30*time.Minute)
	if _, err := w.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil {
		t.Fatal(err)
	}
	w.claim(t, w.o, ledger.Done, e)
}
