package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// TestRanges_AbandonedGoes: rows below the log's start stayed for ever, of messages that nobody can finish any more, since the
// one segment that had them was still growing. The sweep of a worker's role cuts it at the start that workers have found.
func TestRanges_AbandonedGoes(t *testing.T) {
	t.Parallel()
	for name, old := range map[string]bool{"18": false, "14": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testAbandonedGoes(t, old)
		})
	}
}

func testAbandonedGoes(t *testing.T, old bool) {
	admin, b := asRole(t, postgres.Worker, old)
	o := join(t, b, time.Minute)
	finish := func(all []ledger.Entry) { t.Helper(); succeedAll(t, o, claimsOf(t, o, all, ledger.Run)) }
	const window = 50 * time.Millisecond
	lost := records("s", 0, 0, 2)
	lost[0].Window, lost[1].Window = window, window
	claims := claimsOf(t, o, lost, ledger.Run)
	errs, err := o.Settle(t.Context(), []ledger.Settlement{
		{Ticket: claims[0].Ticket, Kind: ledger.Release, Count: true},
		{Ticket: claims[1].Ticket, Kind: ledger.Fail, Dead: &ledger.Archive{Key: lost[1].Key, Delivery: lost[1].Delivery, Keep: time.Hour}},
	})
	if err != nil || errs[0] != nil || errs[1] != nil {
		t.Fatal(errs, err)
	}
	finish(records("s", 0, 2, 18))
	for begun := time.Now(); time.Since(begun) < 3*window; { // their windows pass
		if _, err := o.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sweep := func(rows int, from int64) {
		t.Helper()
		for range 2 {
			if _, err := b.Sweep(t.Context(), ledger.MaintainConfig{Keep: time.Millisecond}); err != nil {
				t.Fatal(err)
			}
		}
		r, err := b.Get(t.Context(), records("s", 0, 19, 1)[0].Key)
		left := admin.number(t, "SELECT count(*) FROM ackledger.message")
		if err != nil || r.In == nil || r.In.From != from || left != rows {
			t.Fatalf("%d rows, want %d; in %+v, want it from %d; %v", left, rows, r.In, from, err)
		}
		s, err := b.Stats(t.Context())
		if err != nil || len(s.Scopes) != 1 || s.Scopes[0].Abandoned != int64(min(rows, 1)) || s.Scopes[0].Succeeded != r.In.To-max(from, 2) {
			t.Fatalf("%+v, %v", s.Scopes, err)
		}
	}
	sweep(2, 0)
	next := records("s", 0, 20, 1)
	next[0].Key.Pos.First = 15
	finish(next)
	sweep(2, 0) // not yet an hour: a slow worker may have what lies below
	if n := admin.number(t, "SELECT start FROM ackledger.range_log WHERE low = 0"); n != 15 {
		t.Fatalf("the log's start is %d", n)
	}
	if !refusedOn(t, b, "UPDATE ackledger.range_log SET low = 15") || !refusedOn(t, b, "UPDATE ackledger.segment SET first = 15") {
		t.Error("a worker's role cuts a segment before its log's start is in force")
	}
	admin.exec(t, `ALTER TABLE ackledger.range_log DISABLE TRIGGER guard_log;
		UPDATE ackledger.range_log SET start_at = start_at - interval '2 hours';
		ALTER TABLE ackledger.range_log ENABLE TRIGGER guard_log`)
	if !refusedOn(t, b, "UPDATE ackledger.segment SET first = 16") {
		t.Error("a worker's role cuts a segment behind its log's start")
	}
	held := claimsOf(t, o, records("s", 0, 21, 1), ledger.Run)
	sweep(0, 15)
	succeedAll(t, o, held) // the segment is not as its owner knew it
	sweep(0, 15)
	again := records("s", 0, 22, 1)
	again[0].Key.Pos.First = 18
	finish(again)
	if n := admin.number(t, "SELECT start FROM ackledger.range_log WHERE low = 15"); n != 18 {
		t.Errorf("the log's start is %d", n)
	}
}

// TestTrim: below the log's first offset goes what is finished, of all leader epochs, but for what InTx has committed in a
// range that is open: without it the range would say that it is still to be done, and whoever takes it over would run it.
func TestTrim(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o, taker := join(t, b, time.Minute), join(t, b, time.Minute)
	before := records("s", 0, 0, 10)
	succeedAll(t, o, claimsOf(t, o, before, ledger.Run))
	later := records("s", 0, 10, 7)
	for i := range later {
		at := *later[i].Key.Pos
		at.Epoch++
		later[i].Key = ledger.Key{Scope: later[i].Key.Scope, ID: later[i].Key.ID, Pos: &at}
	}
	held := claimsOf(t, o, later[:5], ledger.Run)
	a := ledger.NewAttempt(o, held[2].Ticket)
	if err := inTx(ledger.WithAttempt(t.Context(), a), oneEffect); err != nil {
		t.Fatal(err)
	}
	twoHoursPass(t, b)
	later[5].Key.Pos.First = 14
	claimsOf(t, o, later[5:6], ledger.Run)
	if n := b.number(t, "SELECT count(*) FROM ackledger.segment"); n != 2 {
		t.Errorf("%d segments when the start is told: it may be in hand for an hour", n)
	}
	twoHoursPass(t, b)
	later[6].Key.Pos.First = 15
	claimsOf(t, o, later[6:], ledger.Run)
	if n := b.number(t, "SELECT count(*) FROM ackledger.segment"); n != 1 {
		t.Errorf("%d segments, want that of InTx alone", n)
	}
	declareDead(t, b, o)
	claimsOf(t, taker, later[2:3], ledger.Done)
	claimsOf(t, taker, later[:2], ledger.Run)
}

// twoHoursPass makes what is finished, and what is known of where logs begin, two hours older.
func twoHoursPass(t *testing.T, b *bench) {
	t.Helper()
	for table, column := range map[string]string{"segment": "until", "range_log": "start_at"} {
		b.exec(t, "ALTER TABLE ackledger."+table+" DISABLE TRIGGER USER")
		b.exec(t, fmt.Sprintf("UPDATE ackledger.%s SET %s = %[2]s - interval '2 hours'", table, column))
		b.exec(t, "ALTER TABLE ackledger."+table+" ENABLE TRIGGER USER")
	}
}

// TestTrimIsOfOneScope: a log that begins later in one scope loses nothing in another, in which it may have another first
// offset (another group's retention, a restored copy), nor do other logs.
func TestTrimIsOfOneScope(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	mine, others, next := records("s", 0, 0, 10), append(records("other", 0, 0, 10), records("s", 1, 0, 10)...), records("s", 0, 10, 2)
	succeedAll(t, o, claimsOf(t, o, append(mine, others...), ledger.Run))
	claimsOf(t, o, records("s", 2, 3, 2), ledger.Run) // in hand, in a log that has no part in it
	next[0].Key.Pos.First = 10
	claimsOf(t, o, next[:1], ledger.Run)
	twoHoursPass(t, b)
	next[1].Key.Pos.First = 11
	claimsOf(t, o, next[1:], ledger.Run)
	for log, want := range map[int64]int{logKey(mine[0]): 11, logKey(others[0]): 0, logKey(others[10]): 0} {
		if n := b.number(t, fmt.Sprintf("SELECT start FROM ackledger.range_log WHERE log = %d", log)); n != want {
			t.Errorf("a log begins at %d, want %d", n, want)
		}
	}
	claimsOf(t, o, others, ledger.Done)
	if n := b.number(t, "SELECT count(*) FROM ackledger.segment"); n != 2 {
		t.Errorf("%d segments, want those of the others", n)
	}
}
