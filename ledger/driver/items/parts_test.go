package items_test

import (
	"fmt"
	"testing"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver/items"
)

// failed archives so many deliveries of each of so many messages, which are failed then.
func (w *world) failed(messages, deliveries int) (all []ledger.Entry) {
	w.Helper()
	for m := range messages {
		e := message()
		e.Key.ID = fmt.Append(nil, "message ", m)
		for d := range deliveries {
			e.Delivery = fmt.Append(nil, "copy ", d)
			c := w.claim(w.other, e)[0]
			w.settle(w.other, fails(&e, &c))
		}
		all = append(all, e)
	}
	return all
}

// succeed lets a message that has failed succeed in another copy.
func (w *world) succeed(e ledger.Entry) {
	w.Helper()
	e.Delivery = []byte("copy that succeeds")
	w.settle(w.other, ledger.Settlement{Ticket: w.claim(w.other, e)[0].Ticket, Kind: ledger.Succeed})
}

// Messages are reopened that have more archived deliveries than one transaction takes: of some together, and of one alone.
func TestReopenWithManyArchives(t *testing.T) {
	t.Parallel()
	for _, of := range []struct{ messages, deliveries int }{{12, 10}, {2, 120}} {
		t.Run(fmt.Sprint(of.messages, " with ", of.deliveries), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			all := w.failed(of.messages, of.deliveries)
			for _, e := range all {
				w.succeed(e)
			}
			r, err := w.slow.Reopen(t.Context(), ledger.ReopenRequest{Filter: ledger.Filter{Scope: "s"}, By: by})
			if err != nil || r.Reopened != int64(of.messages) {
				t.Fatalf("%+v, %v; want all of them reopened", r, err)
			}
			for _, e := range all {
				if n := len(w.archived(e.Key)); n != of.deliveries {
					t.Errorf("%d deliveries are archived, want %d", n, of.deliveries)
				}
				if c := w.claim(w.other, e)[0]; c.Answer != ledger.Run {
					t.Errorf("a delivery that was archived, of a message that was reopened: %v", c.Answer)
				}
			}
			n := 0
			for a, err := range w.slow.Audits(t.Context(), ledger.AuditFilter{}) {
				if n++; err != nil || a.Action != ledger.ActionReopen {
					t.Fatal(a, err)
				}
			}
			if n != of.messages {
				t.Errorf("%d records in the audit, want one for each message", n)
			}
		})
	}
}

// Of a message that was to be reopened some deliveries were to be renamed ahead, or had been, when somebody else reopened it: it is skipped.
func TestReopenThatComesToNothing(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]bool{"ahead": true, "behind": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			e := w.failed(1, 120)[0]
			w.succeed(e)
			row := items.MessageName(e.Key.Sum())
			reopen := func(want int64) {
				t.Helper()
				r, err := w.slow.Reopen(t.Context(), ledger.ReopenRequest{Filter: ledger.Filter{Scope: "s"}, By: by})
				if err != nil || r.Reopened != want {
					t.Errorf("%+v, %v; want %d reopened", r, err, want)
				}
			}
			w.way.stops = func(_ *items.Query, c *items.Change) bool { return c != nil && c.Name == row && c.Check == ahead }
			w.way.then = func() { reopen(1) }
			reopen(0)
			if c := w.claim(w.other, e)[0]; w.way.then != nil || c.Answer != ledger.Run {
				t.Errorf("a message that was reopened once: %v", c.Answer)
			}
			w.succeed(e)
		})
	}
}

// A purge, and the audit of a replay, take as many dead letters as there are.
func TestPurgeAndAuditOfMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const letters = 250
	var records []ledger.AuditRecord
	for _, e := range w.failed(letters/25, 25) {
		for d := range 25 {
			records = append(records, ledger.AuditRecord{By: by, Action: ledger.ActionReplay, Key: e.Key, State: ledger.Failed, Delivery: fmt.Append(nil, "copy ", d)})
		}
	}
	if err := w.slow.Audit(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	n := 0
	for d, err := range w.slow.DeadLetters(t.Context(), ledger.Filter{}) {
		if n++; err != nil || d.Replayed.IsZero() {
			t.Fatalf("a dead letter that was replayed: %+v, %v", d, err)
		}
	}
	if r, err := w.purge(); err != nil || r.Purged != letters || n != letters {
		t.Errorf("%+v, %v; want %d purged, of %d", r, err, letters, n)
	}
	noted := map[ledger.Action]int{}
	for a, err := range w.slow.Audits(t.Context(), ledger.AuditFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		noted[a.Action]++
	}
	if noted[ledger.ActionReplay] != letters || noted[ledger.ActionPurge] != letters {
		t.Errorf("the audit has %v, want %d of each", noted, letters)
	}
}
