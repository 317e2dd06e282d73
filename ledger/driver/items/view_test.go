package items_test

import (
	"testing"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver/items"
)

// A message had no row yet when it was looked for, and failed before its log was read: what the log says of it alone, that it is finished,
// is no answer.
func TestViewOfALogIsOfOneMomentWithItsMessage(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), records("log", 1)[0]
	c := w.claim(w.other, e)[0]
	log := items.LogNames(logOf(&e))[0]
	w.way.stops = func(q *items.Query, _ *items.Change) bool { return q != nil && q.Place == log.Place }
	w.way.then = func() { w.settle(w.other, fails(&e, &c)) }
	s, err := w.slow.Status(t.Context(), []ledger.Key{e.Key})
	if w.way.then != nil {
		t.Fatal("it did not freeze")
	}
	if err != nil || s[0].State != ledger.Failed {
		t.Errorf("%v, %v; want it failed", s[0].State, err)
	}
}

// A message was read that had a step, and was reopened before that was read, and recorded another one.
func TestViewOfStepsIsOfOneMomentWithTheirMessage(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), message()
	step := func(c *ledger.Claim, name string) ledger.Settlement {
		return ledger.Settlement{Ticket: c.Ticket, Kind: ledger.RecordStep, Step: &ledger.Step{Name: name}}
	}
	o := w.joins()
	c := w.claim(w.other, e)[0]
	w.settle(w.other, step(&c, "before"))
	w.way.stops = func(q *items.Query, _ *items.Change) bool { return q != nil && q.Prefix != "" && q.Prefix[0] == 's' }
	w.way.then = func() {
		w.settle(w.other, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed})
		if r, err := w.slow.Reopen(t.Context(), ledger.ReopenRequest{Filter: ledger.Filter{Scope: "s"}, By: by}); err != nil || r.Reopened != 1 {
			t.Error(r, err)
		}
		c = w.claim(w.other, e)[0]
		w.settle(w.other, step(&c, "behind"))
	}
	list, err := ledger.ReadSteps(t.Context(), o, c.Ticket)
	if w.way.then != nil {
		t.Fatal("it did not freeze")
	}
	if err != nil || len(list) != 1 || list[0].Name != "behind" {
		t.Errorf("steps %v, %v; want that of the message as it is", list, err)
	}
}
