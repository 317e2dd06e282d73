package sqlite_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// Rows below the log's start stayed for ever, of messages that nobody can finish any more, since the one segment that had
// them was still growing.
func TestRanges_AbandonedGoes(t *testing.T) {
	t.Parallel()
	l, app := openAt(t, sqlite.Fresh(t), nil)
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

// TestSweepCutsInSteps: a log that lost a file leaves a row for each result below its start; one transaction wrote them all, and
// whoever claimed waited for it.
func TestSweepCutsOff(t *testing.T) {
	t.Parallel()
	const all, start = 360, 350
	l, app := openAt(t, sqlite.Fresh(t), nil)
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := o.Claim(t.Context(), records(0, all))
	var done []ledger.Settlement
	for _, c := range claims {
		done = append(done, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed, Result: []byte("result")})
	}
	if err == nil {
		_, err = o.Settle(t.Context(), done)
	}
	if err != nil {
		t.Fatal(err)
	}
	const begins = "UPDATE ackledger_range_log SET start = 350, start_at = start_at - 7200000000"
	if _, err := app.main.ExecContext(t.Context(), begins); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Sweep(t.Context(), ledger.MaintainConfig{Batch: 100}); err != nil {
		t.Fatal(err)
	}
	var first, last int64
	if err := app.main.QueryRowContext(t.Context(), "SELECT first, last FROM ackledger_segment").Scan(&first, &last); err != nil {
		t.Fatal(err)
	}
	if first != start || last != all {
		t.Errorf("the segment is from %d to %d", first, last)
	}
	if s, err := l.Stats(t.Context()); err != nil || s.Scopes[0].Succeeded != all {
		t.Errorf("%+v, %v", s.Scopes, err)
	}
}

// TestSweepDropsSegmentsInSteps: the same for segments that expire together.
func TestSweepDropsSegmentsInSteps(t *testing.T) {
	t.Parallel()
	l, app := openAt(t, sqlite.Fresh(t), nil)
	rangedBatch(t, l, 0, 5)
	for _, sql := range []string{
		`WITH RECURSIVE i(n) AS (SELECT 10 UNION ALL SELECT n + 10 FROM i WHERE n < 2500)
			INSERT INTO ackledger_segment (log, first, last, messages, since, until, expiry, kind)
			SELECT log, n, n + 5, 5, 0, 0, 1, 1 FROM ackledger_range_log, i`,
		"CREATE TABLE gone (at INTEGER)",
		"CREATE TRIGGER gone AFTER DELETE ON ackledger_segment BEGIN INSERT INTO gone SELECT lease_end FROM ackledger_maintenance; END",
	} {
		if _, err := app.main.ExecContext(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Sweep(t.Context(), ledger.MaintainConfig{Batch: 100}); err != nil {
		t.Fatal(err)
	}
	var left, gone, longest int64
	if err := app.main.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM ackledger_segment), (SELECT count(*) FROM gone),
		(SELECT max(n) FROM (SELECT count(*) AS n FROM gone GROUP BY at))`).Scan(&left, &gone, &longest); err != nil {
		t.Fatal(err)
	}
	if left != 0 || gone != 250 || longest > 100 {
		t.Errorf("%d segments are left; of %d one transaction dropped %d", left, gone, longest)
	}
}

// TestSweepKeepsOwnersOfWhatItDissolves: the pass that made rows of a dead owner's range removed the owner, and the message that
// killed its worker counted no crash.
func TestSweepKeepsOwnersOfWhatItDissolves(t *testing.T) {
	t.Parallel()
	l, app := openAt(t, sqlite.Fresh(t), nil)
	rangedBatch(t, l, 0, 5)
	for sql, file := range map[string]*sql.DB{
		"UPDATE ackledger_claim_range SET at = at - 7200000000":            app.main,
		"UPDATE ackledger_owner SET fate = 3, fated_at = 1, lease_end = 1": app.owners,
	} {
		if _, err := file.ExecContext(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil {
		t.Fatal(err)
	}
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := o.Claim(t.Context(), records(0, 5))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range claims {
		if c.Answer != ledger.Run || c.Crashes != 1 || !c.TookOver {
			t.Errorf("record %d: %+v, want its crash counted", i, c)
		}
	}
}
