package items_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver/items"
	"github.com/ackledger/ackledger/ledger/driver/items/itemstest"
)

// large is a body that takes an item of its own.
func large(text string) []byte { return bytes.Repeat([]byte(text), 10_000) }

// failsWith is a failure for good with a body.
func failsWith(e *ledger.Entry, c *ledger.Claim, body []byte) ledger.Settlement {
	s := fails(e, c)
	s.Dead.Body = body
	return s
}

var by = ledger.By{Actor: "test", Reason: "test"}

// whole makes sure that of so many archived deliveries of a message the latest has its body.
func (w *world) whole(k ledger.Key, body []byte, archived int) {
	w.Helper()
	r, err := w.slow.Get(w.Context(), k)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) || len(r.Archived) != archived || !bytes.Equal(r.Archived[archived-1].Body, body) {
		w.Errorf("%d deliveries are archived, %v; want %d, the latest with its body", len(r.Archived), err, archived)
	}
}

// A worker that archived a large body froze before it wrote a part of it. It was declared dead, the message failed for good elsewhere, and
// was purged. Then the worker wrote that part, which no purge found any more.
func TestPitfall211_PartOfABodyAfterThePurge(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), message()
	o, secret := w.joins(), large("secret")
	c := w.claim(o, e)[0]
	w.way.stops = func(_ *items.Query, c *items.Change) bool { return c != nil && c.Name.Sort[0] == 'c' }
	w.way.then = func() {
		if err := w.hooks.Declare(t.Context(), o.ID()); err != nil {
			t.Error(err)
		}
		again := w.claim(w.other, e)[0]
		w.settle(w.other, failsWith(&e, &again, secret))
		if r, err := w.purge(); err != nil || r.Purged != 1 {
			t.Error(r, err)
		}
		w.sweep()
	}
	late := failsWith(&e, &c, secret)
	late.Dead.Keep *= 2
	if errs, err := o.Settle(t.Context(), []ledger.Settlement{late}); err != nil || !ledger.IsLost(errs[0]) {
		t.Errorf("the settlement of an owner that was declared dead: %v, %v", errs, err)
	}
	if w.way.then != nil {
		t.Fatal("it did not freeze")
	}
	if n := w.holding(e.Key, secret[:100]); n != 0 {
		t.Errorf("%d items have the body of what is purged", n)
	}
}

// A worker that archived a large body froze before it wrote a part of it, or behind that, and meanwhile the message failed for good elsewhere.
// That part does not go before its delivery, whoever wrote it first.
func TestPartOfABodyStaysAsLongAsItsDelivery(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]byte{"before": 'c', "behind": 'a'} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, e := newWorld(t), message()
			o, body := w.joins(), large("body")
			c := w.claim(o, e)[0]
			w.way.stops = func(_ *items.Query, c *items.Change) bool { return c != nil && c.Name.Sort[0] == kind }
			w.way.then = func() {
				if err := w.hooks.Declare(t.Context(), o.ID()); err != nil {
					t.Error(err)
				}
				w.table.Age(time.Minute)
				again := w.claim(w.other, e)[0]
				w.settle(w.other, failsWith(&e, &again, body))
			}
			if errs, err := o.Settle(t.Context(), []ledger.Settlement{failsWith(&e, &c, body)}); err != nil || !ledger.IsLost(errs[0]) {
				t.Errorf("the settlement of an owner that was declared dead: %v, %v", errs, err)
			}
			a := w.archived(e.Key)[0]
			for i, err := range w.table.Query(t.Context(), items.Query{Place: string(a[items.Place].Bytes), Prefix: "c"}) {
				if err != nil || i[items.TTL].Number < a[items.TTL].Number {
					t.Errorf("a part of the body goes at %d, its delivery at %d, %v", i[items.TTL].Number, a[items.TTL].Number, err)
				}
			}
			w.whole(e.Key, body, 1)
		})
	}
}

// A transaction that archives a large body is run again until nobody is ahead, and leaves one copy of it.
func TestBodyOfATransactionThatIsRunAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.table = itemstest.NewTable(0.5, 1)
	o, body := join(t, w.table), large("body")
	for n := range 20 {
		e := message()
		e.Key.ID = []byte{byte(n)}
		c := w.claim(o, e)[0]
		w.settle(o, failsWith(&e, &c, body))
		if n := w.holding(e.Key, body[:100]); n != 1 {
			t.Errorf("%d items have the body", n)
		}
	}
}

// What is purged while somebody reads it is read as purged, not as half a body.
func TestReadWhileItIsPurged(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), message()
	c := w.claim(w.other, e)[0]
	w.settle(w.other, failsWith(&e, &c, large("body")))
	w.way.stops = func(q *items.Query, _ *items.Change) bool { return q != nil && q.From != "" && q.From[0] == 'c' }
	w.way.then = func() {
		if r, err := w.purge(); err != nil || r.Purged != 1 {
			t.Error(r, err)
		}
	}
	r, err := w.slow.Get(t.Context(), e.Key)
	if w.way.then != nil {
		t.Fatal("it did not freeze")
	}
	if err != nil || len(r.Archived) != 1 || r.Archived[0].Purged.IsZero() || r.Archived[0].Body != nil {
		t.Errorf("read %+v, %v; want it purged", r.Archived, err)
	}
}

// A delivery that belongs to no message was purged, and the same one comes again: what its purge has left is no body, and it gets one.
func TestArchivedAgainAfterThePurge(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), message()
	body := large("body")
	mismatch := ledger.Claim{Ticket: ledger.MismatchTicket(e.Key.Sum())}
	w.settle(w.other, failsWith(&e, &mismatch, body))
	if r, err := w.purge(); err != nil || r.Purged != 1 {
		t.Fatal(r, err)
	}
	w.table.Age(time.Minute)
	w.sweep()
	if n := len(w.archived(e.Key)); n != 0 {
		t.Fatalf("%d deliveries are archived after the purge of one without a message", n)
	}
	w.settle(w.other, failsWith(&e, &mismatch, body))
	w.whole(e.Key, body, 1)
}

// A process that purged a delivery froze before it removed the parts of its body. The sweep did that, and the delivery went with its message.
// Then the same delivery failed again, and the process woke up: it removed the new body.
func TestPurgeThatEndsLate(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), message()
	body := large("body")
	c := w.claim(w.other, e)[0]
	w.settle(w.other, failsWith(&e, &c, body))
	w.table.Age(time.Minute)
	w.way.stops = func(_ *items.Query, c *items.Change) bool { return c != nil && c.Name.Sort[0] == 'c' }
	w.way.then = func() {
		w.table.Age(3 * time.Hour)
		w.sweep()
		if n := len(w.archived(e.Key)); n != 0 {
			t.Errorf("%d deliveries are archived after their time", n)
		}
		c := w.claim(w.other, e)[0]
		w.settle(w.other, failsWith(&e, &c, body))
	}
	if _, err := w.purge(); err != nil {
		t.Fatal(err)
	}
	if w.way.then != nil {
		t.Fatal("it did not freeze")
	}
	w.whole(e.Key, body, 1)
}

// A message that had failed, and succeeded later, was reopened, and the same delivery failed anew with the same body. Of both one was purged,
// and the body of the other went with it.
func TestPitfall213_PurgeOfOneOfTwoBodies(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), message()
	body := large("body")
	c := w.claim(w.other, e)[0]
	w.settle(w.other, failsWith(&e, &c, body))
	copied := e
	copied.Delivery = []byte("another copy")
	c = w.claim(w.other, copied)[0]
	w.settle(w.other, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed})
	if r, err := w.slow.Reopen(t.Context(), ledger.ReopenRequest{Filter: ledger.Filter{Scope: "s"}, By: by}); err != nil || r.Reopened != 1 {
		t.Fatal(r, err)
	}
	w.table.Age(time.Minute)
	between := w.table.Now()
	c = w.claim(w.other, e)[0]
	w.settle(w.other, failsWith(&e, &c, body))
	r, err := w.slow.Purge(t.Context(), ledger.PurgeRequest{Filter: ledger.Filter{Scope: "s", To: between}, By: by})
	if err != nil || r.Purged != 1 {
		t.Fatal(r, err)
	}
	w.whole(e.Key, body, 2)
}
