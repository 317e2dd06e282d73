package items_test

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver/items"
)

// records a step of a message.
func (w *world) step(c *ledger.Claim, name string) {
	w.Helper()
	w.settle(w.other, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.RecordStep, Step: &ledger.Step{Name: name}})
}

// steps is how many items are steps of a message, of any life.
func (w *world) steps(k ledger.Key) (n int) {
	w.Helper()
	for _, err := range w.table.Query(w.Context(), items.Query{Place: items.MessageName(k.Sum()).Place, Prefix: "s"}) {
		if n++; err != nil {
			w.Fatal(err)
		}
	}
	return n
}

// The table removed a message, and knows nothing of its steps: they go with the sweep.
func TestStepsOfAMessageThatWentByItself(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), message()
	c := w.claim(w.other, e)[0]
	w.step(&c, "one")
	w.step(&c, "two")
	w.remove(items.MessageName(e.Key.Sum()))
	w.sweep()
	if n := w.steps(e.Key); n != 0 {
		t.Errorf("%d steps are left", n)
	}
}

// A process reopened a message, and died before it removed the steps of the life that was over. The sweep removes these, and leaves those of
// the next life: else what they are of would be done twice.
func TestPitfall202_SweptStepsOfTheNextLife(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), message()
	c := w.claim(w.other, e)[0]
	w.step(&c, "before")
	w.settle(w.other, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed})
	w.way.lost = true
	if _, err := w.slow.Reopen(t.Context(), ledger.ReopenRequest{Filter: ledger.Filter{Scope: "s"}, By: by}); err == nil {
		t.Fatal("all that was to go has gone")
	}
	c = w.claim(w.other, e)[0]
	w.step(&c, "behind")
	if n := w.steps(e.Key); n != 2 {
		t.Fatalf("%d steps are there, want one of each life", n)
	}
	w.table.Age(time.Minute)
	w.sweep()
	if n := w.steps(e.Key); n != 1 {
		t.Errorf("%d steps are left, want that of the present life", n)
	}
	if list, err := ledger.ReadSteps(t.Context(), w.other, c.Ticket); err != nil || len(list) != 1 || list[0].Name != "behind" {
		t.Errorf("steps %v, %v; want that of the present life", list, err)
	}
}

// A message that the sweep removes takes its steps along.
func TestStepsGoWithTheirMessage(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), message()
	c := w.claim(w.other, e)[0]
	w.step(&c, "one")
	w.settle(w.other, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed})
	w.table.Age(2 * time.Hour)
	w.sweep()
	if there, err := w.table.Get(t.Context(), []items.Name{items.MessageName(e.Key.Sum())}); err != nil || len(there) != 0 {
		t.Errorf("a message is there past its window, %v", err)
	}
	if n := w.steps(e.Key); n != 0 {
		t.Errorf("%d steps are left of a message that is gone", n)
	}
}
