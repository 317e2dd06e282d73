package items_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver"
	"github.com/ackledger/ackledger/ledger/driver/items"
	"github.com/ackledger/ackledger/ledger/driver/items/itemstest"
)

// logOf is the log in which an entry lies.
func logOf(e *ledger.Entry) driver.LogID {
	id, _ := driver.SplitKey(e.Key.Sum())
	return id
}

// A process met a log that was new, and froze before it wrote it. Others made the log, finished what was in it, and it was dropped. Then the
// process wrote it, above the floor that it had read before: its tokens were those that others had had.
func TestPitfall210_LogWrittenAfterItsOwnDrop(t *testing.T) {
	t.Parallel()
	w, entries := newWorld(t), records("log", 3)
	slow, log := w.joins(), items.LogNames(logOf(&entries[0]))[0]
	highest := uint64(0)
	w.way.stops = func(_ *items.Query, c *items.Change) bool { return c != nil && c.Name == log }
	w.way.then = func() {
		for _, e := range entries {
			c := w.claim(w.other, e)[0]
			highest = max(highest, c.Token)
			w.settle(w.other, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed})
		}
		w.table.Age(49 * time.Hour)
		w.sweep()
		if there, err := w.table.Get(t.Context(), []items.Name{log}); err != nil || len(there) != 0 {
			t.Errorf("the log is not dropped, %v", err)
		}
	}
	c := w.claim(slow, entries[0])[0]
	if w.way.then != nil || highest == 0 {
		t.Fatal("it did not freeze")
	}
	if c.Answer != ledger.Run || c.Token <= highest {
		t.Errorf("%v with token %d, want it above %d, which others had before the log was dropped", c.Answer, c.Token, highest)
	}
}

// As before, but what others claimed there had rows, and one was in hand still when the log was dropped. The log had given out no token, so
// its drop left the floor as it was. The process wrote the log as one without rows, and ran what was in another's hands.
func TestPitfall212_LogWrittenOverRows(t *testing.T) {
	t.Parallel()
	e := records("log", 1)[0]
	log := items.LogNames(logOf(&e))[0]
	for name, stops := range map[string]func(q *items.Query, c *items.Change) bool{
		"at its write":       func(_ *items.Query, c *items.Change) bool { return c != nil && c.Name == log },
		"behind its reading": func(q *items.Query, _ *items.Change) bool { return q != nil && q.Names },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.way.stops, w.way.then = stops, func() {
				row := e
				row.Ranged = false
				if c := w.claim(w.other, row)[0]; c.Answer != ledger.Run {
					t.Errorf("a new message: %v", c.Answer)
				}
				w.table.Age(49 * time.Hour)
				w.sweep()
				there, err := w.table.Get(t.Context(), []items.Name{log, items.MessageName(e.Key.Sum())})
				if err != nil || there[log] != nil || len(there) != 1 {
					t.Errorf("%d items are there, %v, want the message's alone", len(there), err)
				}
			}
			c := w.claim(w.joins(), e)[0]
			if w.way.then != nil {
				t.Fatal("it did not freeze")
			}
			if c.Answer != ledger.Busy {
				t.Errorf("a message that a live owner has: %v", c.Answer)
			}
		})
	}
}

// A process that met a new log read that it is listed, since others had just made it, and froze before it read the floor; meanwhile the log was
// dropped, and its listing with it. The process made the log anew, and none of the sweeps saw it any more.
func TestPitfall210_LogWithoutItsListing(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), records("log", 1)[0]
	listing := items.LogNames(logOf(&e))[1]
	w.way.stops = func(q *items.Query, _ *items.Change) bool { return q != nil && q.Place == listing.Place }
	w.way.then = func() {
		w.settle(w.other, ledger.Settlement{Ticket: w.claim(w.other, e)[0].Ticket, Kind: ledger.Succeed})
		w.way.stops = func(q *items.Query, _ *items.Change) bool { return q != nil && q.From == "floor" }
		w.way.then = func() {
			w.table.Age(49 * time.Hour)
			w.sweep()
		}
	}
	if c := w.claim(w.joins(), e)[0]; w.way.then != nil || c.Answer != ledger.Run {
		t.Fatalf("it did not freeze: %v", c.Answer)
	}
	if there, err := w.table.Get(t.Context(), items.LogNames(logOf(&e))); err != nil || len(there) != 2 {
		t.Errorf("%d items are there, %v, want the log and its listing", len(there), err)
	}
}

// rounds counts the writes that go to a table.
type rounds struct {
	items.Table
	n int
}

func (r *rounds) Write(ctx context.Context, sets []*items.Set) error {
	r.n++
	return r.Table.Write(ctx, sets)
}

// Logs that are met in one call are made at once: that each needs the floor as it is does not put one behind the other.
func TestNewLogsAreMadeAtOnce(t *testing.T) {
	t.Parallel()
	way := &rounds{Table: itemstest.NewTable(0, 1)}
	o := join(t, way)
	var entries []ledger.Entry
	for log := range 30 {
		entries = append(entries, records(fmt.Sprint("log ", log), 2)...)
	}
	before := way.n
	claims, err := o.Claim(t.Context(), entries)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range claims {
		if c.Answer != ledger.Run {
			t.Errorf("record %d of a new log: %v", i, c.Answer)
		}
	}
	if n := way.n - before; n != 1 {
		t.Errorf("30 logs took %d writes one after the other, want one", n)
	}
}
