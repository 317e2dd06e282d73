package ledgertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Pitfall28 holds against this: a worker swept at its start, before the duplicates of a rebalance arrived: rows of
// messages that were still to come were gone. A pending row past its expiry is reported, and kept.
func Pitfall28(t *testing.T, open Open) {
	e := begin(t, open)
	o, m := e.owner(), e.short("a")
	e.holds(o, failedAttempt(e.want(o, m, ledger.Run), "x"))
	e.crash(e.short("b"))
	e.pass(shortWindow)
	r := e.sweep(24 * time.Hour)
	if r.Abandoned != 2 || r.Removed() != 0 || len(r.Oldest) != 2 || string(r.Oldest[0].ID) != string(m.Key.ID) {
		e.Fatalf("%+v", r)
	}
	if c := e.want(o, m, ledger.Run); c.Attempt != 2 || c.Token != 2 {
		e.Fatalf("its message came: %+v", c)
	} else {
		e.holds(o, release(c))
	}
	e.pass(shortWindow) // its window again: the archive's retention cannot be shorter, whatever is said
	gone, left := int64(2), int64(0)
	if e.Ranged { // what is in a dead owner's range stays until it is asked for, or its range is dissolved
		gone, left = 1, 1
	}
	if r := e.sweep(time.Millisecond); r.Dropped != gone || r.Abandoned != left {
		e.Fatalf("%+v", r)
	}
	if c := e.want(o, m, ledger.Run); c.Attempt != 1 || (c.Token > 1) != e.Ranged {
		e.Fatalf("its message came after all: %+v", c)
	}
}

// SweptRetentions belongs to pitfall 30: a worker with a short retention swept the rows of one with a long one.
func SweptRetentions(t *testing.T, open Open) {
	e := begin(t, open)
	long, short := e.owner(), e.owner()
	m, n := e.entry("long"), e.short("short")
	e.holds(long, succeed(e.want(long, m, ledger.Run)))
	again := m // the other worker asks for the same message, with its own window
	again.Window = shortWindow
	e.want(short, again, ledger.Done)
	e.holds(short, succeed(e.want(short, n, ledger.Run))) // the last claim: memory drops what has expired at each
	e.pass(shortWindow)
	if r := e.sweep(time.Millisecond); !e.Ranged && r.Messages != 1 || !e.gone(n) || e.gone(m) {
		e.Fatalf("%+v", r)
	}
	e.want(short, again, ledger.Done)
}

// Pitfall203 holds against this: a delivery failed for good that was archived from long ago, past its time and not yet removed. It was
// taken for archived, and then that was removed; a claim between was even told that it was done.
func Pitfall203(t *testing.T, open Open) {
	e := begin(t, open)
	o, m := e.owner(), e.short("a")
	failed := fail(e.want(o, m, ledger.Run), m)
	failed.Dead.Keep = shortWindow
	e.holds(o, failed)
	e.pass(shortWindow)
	m.Window = window
	copied := m
	copied.Delivery = []byte("a#2")
	e.holds(o, release(e.want(o, copied, ledger.Run)))
	again := e.want(o, m, ledger.Run)
	e.holds(o, fail(again, m))
	e.want(o, m, ledger.Done)
	e.sweep(keep)
	list := e.record(m).Archived
	if len(list) != 1 || list[0].Token != again.Token || string(list[0].Body) != "body of a#1" {
		e.Fatalf("archived of a message that has just failed with token %d: %+v", again.Token, list)
	}
}

// Pitfall72 holds against this: a beat every third of the lease for a week: owner rows piled up, and beats touched the
// messages' rows.
func Pitfall72(t *testing.T, open Open) {
	e := begin(t, open)
	m := e.entry("a")
	o := e.owner()
	c := e.want(o, m, ledger.Run)
	before := e.record(m)
	for range 40 { // as many restarts as in a week of deploys, with beats
		p := e.owner()
		for _, b := range []ledger.Owner{o, p} {
			if _, err := b.Beat(e.ctx); err != nil {
				e.Fatalf("beat: %v", err)
			}
		}
		e.leave(p)
	}
	e.same(before)
	e.sweep(keep)
	e.rest()
	e.sweep(keep)
	if s := e.stats().Owners; s.Live != 1 || s.Left+s.Dead != 0 {
		e.Fatalf("owners: %+v", s)
	}
	e.same(before)
	e.holds(o, succeed(c))
}

// SweptMeanwhile belongs to pitfall 79: the message of a pending row past its expiry arrives while the sweep is at it.
func SweptMeanwhile(t *testing.T, open Open) {
	e := begin(t, open)
	o := e.owner()
	n := inLongRun(200, 60)
	var entries []ledger.Entry
	for i := range n {
		entries = append(entries, e.short(number(i)))
	}
	var settlements []ledger.Settlement
	for _, c := range e.claimAll(o, entries) {
		settlements = append(settlements, release(c))
	}
	e.settleAll(o, settlements)
	e.pass(2 * shortWindow)
	first := e.want(o, entries[0], ledger.Run)
	e.sweep(time.Millisecond) // of the others' rows, and not of what is in hand
	e.holds(o, succeed(first))
	entries = entries[1:]
	ctx, cancel := context.WithCancel(e.ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		err := e.maintainer().Maintain(ctx, ledger.MaintainConfig{Keep: time.Millisecond, Interval: time.Millisecond, Batch: 100})
		if err != nil {
			e.Errorf("maintain: %v", err)
		}
	})
	defer wg.Wait()
	defer cancel()
	for i, m := range entries {
		m.Window = window
		var c ledger.Claim
		e.eventually("it runs", func() bool { c = e.claim(o, m); return c.Answer == ledger.Run })
		if err := e.settle(o, succeed(c)); err != nil {
			e.Fatalf("message %d, token %d: %v", i, c.Token, err)
		}
	}
	cancel()
	wg.Wait()
	for _, m := range entries {
		if !e.gone(m) { // those that ran on their old row are past its expiry
			e.want(o, m, ledger.Done)
		}
	}
}
