package flow

import (
	"fmt"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// parkedItems are items whose handlers have ended, to be parked.
func parkedItems(f *Flow, name string, n int) {
	for i := range n {
		it := plainItem("", fmt.Sprint(name, i))
		f.s.add(it)
		it.sess = f.sess
		f.s.setPhase(it, running)
		f.settle(0, it, &ledger.Settlement{Kind: ledger.Park, After: time.Hour, Dead: &ledger.Archive{}})
	}
}

// succeeds has an item settled that went well.
func succeeds(f *Flow, name string) {
	it := plainItem("", name)
	f.s.add(it)
	it.sess = f.sess
	f.s.setPhase(it, running)
	f.succeed(it, nil)
}

// Settlements that park go one call at a time, with a rest behind each as long as others are to be settled, and count nowhere against
// those others.
func TestParksLeaveTheLedgerToOthers(t *testing.T) {
	f := joined(Config{Concurrency: 1})
	parkedItems(f, "p", SettleBatch+1)
	var parks, more, other Batch
	if !f.Has().Settlements || !f.NextSettle(0, &parks) || len(parks.Items) != SettleBatch || parks.Items[0].Kind != ledger.Park {
		t.Fatalf("%d go", len(parks.Items))
	}
	if f.Has().Settlements || f.NextSettle(0, &more) {
		t.Fatal("two calls park at a time")
	}
	succeeds(f, "a")
	if !f.NextSettle(0, &other) || len(other.Items) != 1 || other.Items[0].Kind != ledger.Succeed {
		t.Fatal("others wait for a call that parks")
	}
	f.SettleOver(20*time.Millisecond, &parks)
	if f.Has().Settlements || f.NextSettle(20*time.Millisecond, &more) {
		t.Fatal("there is no rest")
	}
	if at, ok := f.NextWake(); !ok || at != 200*time.Millisecond {
		t.Fatalf("the rest ends at %s", at)
	}
	f.Wake(200 * time.Millisecond)
	if !f.NextSettle(200*time.Millisecond, &more) || len(more.Items) != 1 || more.Items[0].Kind != ledger.Park {
		t.Fatal("the rest is over, and it does not go")
	}
	f.SettleOver(time.Minute, &more)
	parkedItems(f, "q", 1)
	if f.NextSettle(time.Minute, &parks) {
		t.Fatal("there is no rest")
	}
	if f.SettleOver(time.Minute, &other); !f.Has().Settlements || !f.NextSettle(time.Minute, &parks) {
		t.Fatal("it rests, and nothing else is to be settled")
	}
	f.SettleOver(10*time.Minute, &parks)
	if at, ok := f.NextWake(); !ok || at != 10*time.Minute+parkRestMost {
		t.Fatalf("the rest ends at %s", at)
	}
}

// When the broker has something back, or a drain waits, those that park rest no more until all are settled.
func TestParksHurry(t *testing.T) {
	f := joined(Config{Concurrency: 1})
	parkedItems(f, "p", 2*SettleBatch)
	succeeds(f, "a")
	var parks, other Batch
	f.NextSettle(0, &parks)
	f.NextSettle(0, &other)
	f.SettleOver(time.Second, &parks)
	f.Drop(time.Second, func(it *Item) bool { return true }, time.Minute, nil)
	if !f.NextSettle(time.Second, &parks) {
		t.Fatal("what is dropped waits for a rest")
	}
	f.SettleOver(2*time.Second, &parks)
	if _, ok := f.NextWake(); f.parks.hurried || !ok {
		t.Error("it hurries for good")
	}
}
