package flow

import (
	"slices"
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

// plainItem is an item that nobody has offered yet.
func plainItem(sequence, id string) *Item {
	it := &Item{OrderingKey: sequence}
	it.Key = ledger.Key{Scope: "s", ID: []byte(id)}
	return it
}

// joined is a flow of which nothing is in hand, and that may start.
func joined(cfg Config) *Flow {
	f := New(cfg)
	f.Joined(&Session{Ranges: true})
	commands(f)
	return f
}

// commands ends an event.
func commands(f *Flow) Commands {
	c := f.End()
	carried := *c
	carried.Recall, carried.CallOff, carried.Concluded = slices.Clone(c.Recall), slices.Clone(c.CallOff), slices.Clone(c.Concluded)
	carried.Ended, carried.Counted, carried.News = slices.Clone(c.Ended), slices.Clone(c.Counted), slices.Clone(c.News)
	c.Reset()
	return carried
}

// What nobody has set must never acknowledge.
func TestZeroNeverAcknowledges(t *testing.T) {
	if (Verdict{}).Ack || (Finished{}).Verdict.Ack {
		t.Fatal("a zero value acknowledges")
	}
}

// Whoever waits for room is told once that there is some, not by each event after it.
func TestRoomIsToldOfOnce(t *testing.T) {
	f := joined(Config{Concurrency: 1})
	f.s.eased = true
	if !commands(f).Improved {
		t.Error("not told of room")
	}
	if commands(f).Improved {
		t.Error("told of room that nobody made")
	}
}
