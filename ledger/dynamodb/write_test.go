package dynamodb_test

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/driver/items"
	"github.com/ackledger/ackledger/ledger/dynamodb"
)

// A set that only checks an item leaves it as it is, beside others as well, and says whether it is as it was read.
func TestACheckAloneWritesNothing(t *testing.T) {
	t.Parallel()
	c := client(t)
	table := dynamodb.New(c, fresh(t, c), nil).Hooks().Table
	ctx := t.Context()
	name := func(s string) items.Name { return items.Name{Place: "x", Sort: s} }
	item := func(s string) items.Item {
		i := name(s).Item()
		i[items.Version] = items.Bytes("version")
		return i
	}
	if err := table.Put(ctx, []items.Item{item("there")}); err != nil {
		t.Fatal(err)
	}
	other := item("there")
	other[items.Version] = items.Bytes("another")
	sets := []*items.Set{
		{Changes: []items.Change{{Name: name("there"), Was: item("there"), Check: true}}},
		{Changes: []items.Change{{Name: name("new"), Is: item("new")}}},
		{Changes: []items.Change{{Name: name("there"), Was: other, Check: true}}},
		{Changes: []items.Change{{Name: name("not there"), Check: true}}},
	}
	if err := table.Write(ctx, sets); err != nil {
		t.Fatal(err)
	}
	for i, written := range []bool{true, true, false, true} {
		if sets[i].Written != written || sets[i].Behind == written {
			t.Errorf("set %d: written %v, behind %v; want written %v", i, sets[i].Written, sets[i].Behind, written)
		}
	}
	found, err := table.Get(ctx, []items.Name{name("there"), name("new"), name("not there")})
	if err != nil || len(found) != 2 || found[name("there")] == nil || found[name("new")] == nil {
		t.Errorf("%d items, %v; want that which was checked and the new one", len(found), err)
	}
}

// Two records had one business key, and that which came second was archived as a mismatch. It came again, and again: it is archived still, and
// so it is not run.
func TestPitfall104_FiledAgain(t *testing.T) {
	t.Parallel()
	c := client(t)
	l := dynamodb.New(c, fresh(t, c), nil)
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	first := entriesOf("scope", "key", 1)[0]
	first.Fingerprint = ledger.BodyFingerprint([]byte("first"))
	second := first
	second.Fingerprint, second.Delivery = ledger.BodyFingerprint([]byte("second")), []byte("second")
	claim := func(e ledger.Entry) ledger.Claim {
		t.Helper()
		claims, err := o.Claim(t.Context(), []ledger.Entry{e})
		if err != nil {
			t.Fatal(err)
		}
		return claims[0]
	}
	if got := claim(first); got.Answer != ledger.Run {
		t.Fatalf("the first record: %v", got.Answer)
	}
	mismatch := claim(second)
	if mismatch.Answer != ledger.Mismatch {
		t.Fatalf("the second record: %v", mismatch.Answer)
	}
	for range 3 { // its answer may be lost
		errs, err := o.Settle(t.Context(), []ledger.Settlement{{Ticket: mismatch.Ticket, Kind: ledger.Fail,
			Dead: &ledger.Archive{Key: second.Key, Delivery: second.Delivery, Kind: ledger.KindMismatch, Body: []byte("second"), Keep: time.Hour}}})
		if err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
		if r, err := l.Get(t.Context(), first.Key); err != nil || len(r.Archived) != 1 || string(r.Archived[0].Body) != "second" {
			t.Fatalf("%d deliveries are archived, %v; want the second record", len(r.Archived), err)
		}
	}
	if got := claim(second); got.Answer != ledger.Done {
		t.Errorf("a record that is archived: %v", got.Answer)
	}
}
