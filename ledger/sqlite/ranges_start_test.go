package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Rows below the log's start stayed for ever, of messages that nobody can finish any more, since the one segment that had
// them was still growing.
func TestRanges_AbandonedGoes(t *testing.T) {
	t.Parallel()
	l, app := openAt(t, filepath.Join(t.TempDir(), "ledger.db"), nil)
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	const window = 50 * time.Millisecond
	lost := records(0, 2)
	lost[0].Window, lost[1].Window = window, window
	claims, err := o.Claim(t.Context(), lost)
	if err != nil {
		t.Fatal(err)
	}
	errs, err := o.Settle(t.Context(), []ledger.Settlement{
		{Ticket: claims[0].Ticket, Kind: ledger.Release, Count: true},
		{Ticket: claims[1].Ticket, Kind: ledger.Fail, Dead: &ledger.Archive{Key: lost[1].Key, Delivery: lost[1].Delivery, Keep: time.Hour}},
	})
	if err != nil || errs[0] != nil || errs[1] != nil {
		t.Fatal(errs, err)
	}
	finish := func(all []ledger.Entry) {
		t.Helper()
		claims, err := o.Claim(t.Context(), all)
		var done []ledger.Settlement
		for _, c := range claims {
			done = append(done, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed})
		}
		if err == nil {
			_, err = o.Settle(t.Context(), done)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	finish(records(2, 20))
	for begun := time.Now(); time.Since(begun) < 3*window; { // their windows pass
		if _, err := o.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sweep := func(rows, from int64) {
		t.Helper()
		for range 2 {
			if _, err := l.Sweep(t.Context(), ledger.MaintainConfig{Keep: time.Millisecond}); err != nil {
				t.Fatal(err)
			}
		}
		var left int64
		if err := app.main.QueryRowContext(t.Context(), "SELECT count(*) FROM ackledger_message").Scan(&left); err != nil {
			t.Fatal(err)
		}
		r, err := l.Get(t.Context(), record(19).Key)
		if err != nil || r.In == nil || r.In.From != from || left != rows {
			t.Fatalf("%d rows, want %d; in %+v, want it from %d; %v", left, rows, r.In, from, err)
		}
		s, err := l.Stats(t.Context())
		if err != nil || len(s.Scopes) != 1 || s.Scopes[0].Abandoned != min(rows, 1) || s.Scopes[0].Succeeded != r.In.To-max(from, 2) {
			t.Fatalf("%+v, %v", s.Scopes, err)
		}
	}
	sweep(2, 0)
	next := records(20, 21)
	next[0].Key.Pos.First = 15
	finish(next)
	sweep(2, 0) // not yet an hour: a slow worker may have what lies below
	if _, err := app.main.ExecContext(t.Context(), "UPDATE ackledger_range_log SET start_at = start_at - 7200000000"); err != nil {
		t.Fatal(err)
	}
	held, err := o.Claim(t.Context(), records(21, 22))
	if err != nil {
		t.Fatal(err)
	}
	sweep(0, 15)
	if errs, err := o.Settle(t.Context(), []ledger.Settlement{{Ticket: held[0].Ticket, Kind: ledger.Succeed}}); err != nil || errs[0] != nil {
		t.Fatal(errs, err) // the segment is not as its owner knew it
	}
	sweep(0, 15)
}
