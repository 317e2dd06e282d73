package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// world is a ledger with a range of ten records of which the first succeeded, and, unless it is bare, a pending row and a failed
// one.
type world struct {
	*sqlite.Ledger
	app    *app
	o      ledger.Owner
	range_ []ledger.Ticket
	failed ledger.Ticket
}

func newWorld(t *testing.T, bare bool) *world {
	t.Helper()
	w := &world{}
	w.Ledger, w.app = openAt(t, fresh(t), nil)
	var a *ledger.Attempt
	w.o, a = rangedBatch(t, w.Ledger, 0, 10)
	w.range_ = a.Tickets()
	settle := []ledger.Settlement{{Ticket: w.range_[0], Kind: ledger.Succeed}}
	if !bare {
		claims, err := w.o.Claim(t.Context(), []ledger.Entry{message("pending"), message("failed")})
		if err != nil {
			t.Fatal(err)
		}
		w.failed = claims[1].Ticket
		settle = append(settle, ledger.Settlement{Ticket: w.failed, Kind: ledger.Fail, Dead: &ledger.Archive{
			Key: message("failed").Key, Delivery: []byte("failed"), Kind: ledger.KindError, Keep: time.Hour}})
	}
	errs, err := w.o.Settle(t.Context(), settle)
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) exec(t *testing.T, file *sql.DB, statement string) {
	t.Helper()
	if _, err := file.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func (w *world) claim(ctx context.Context, entries ...ledger.Entry) error {
	_, err := w.o.Claim(ctx, entries)
	return err
}

// each answer of a settlement counts: one that is nil says that it is written.
func (w *world) settle(ctx context.Context, s ...ledger.Settlement) error {
	errs, err := w.o.Settle(ctx, s)
	return errors.Join(append(errs, err)...)
}

func (w *world) sweep(ctx context.Context) error {
	_, err := w.Sweep(ctx, ledger.MaintainConfig{})
	return err
}

// TestUnreadableIsNoAnswer: what cannot be read is an error. A table that is not there stands for a disk that gives nothing; an
// answer that is made of nothing says that a message was never seen, or that nothing is left to do.
func TestUnreadableIsNoAnswer(t *testing.T) {
	t.Parallel()
	keys := func(all ...ledger.Entry) (out []ledger.Key) {
		for _, e := range all {
			out = append(out, e.Key)
		}
		return out
	}
	calls := map[string]func(context.Context, *world) error{
		"claim":         func(ctx context.Context, w *world) error { return w.claim(ctx, message("pending")) },
		"claim records": func(ctx context.Context, w *world) error { return w.claim(ctx, records(5, 20)...) },
		"get":           func(ctx context.Context, w *world) error { _, err := w.Get(ctx, message("failed").Key); return err },
		"get a record":  func(ctx context.Context, w *world) error { _, err := w.Get(ctx, record(3).Key); return err },
		"status": func(ctx context.Context, w *world) error {
			_, err := w.Status(ctx, keys(message("pending"), record(3)))
			return err
		},
		"messages": func(ctx context.Context, w *world) (failed error) {
			for _, err := range w.Messages(ctx, ledger.Filter{}) {
				failed = err
			}
			return failed
		},
		"dead letters": func(ctx context.Context, w *world) (failed error) {
			for _, err := range w.DeadLetters(ctx, ledger.Filter{Body: true}) {
				failed = err
			}
			return failed
		},
		"stats":  func(ctx context.Context, w *world) error { _, err := w.Stats(ctx); return err },
		"scopes": func(ctx context.Context, w *world) error { _, err := w.Scopes(ctx); return err },
		"sweep":  func(ctx context.Context, w *world) error { return w.sweep(ctx) },
		"beat":   func(ctx context.Context, w *world) error { _, err := w.o.Beat(ctx); return err },
		"leave":  func(ctx context.Context, w *world) error { return w.o.Leave(ctx) },
		"join":   func(ctx context.Context, w *world) error { _, err := w.Join(ctx, time.Minute); return err },
	}
	for table, failing := range map[string][]string{
		"message":     {"claim", "claim records", "get", "get a record", "status", "messages", "dead letters", "stats", "sweep"},
		"archive":     {"claim", "get", "dead letters", "stats", "sweep"},
		"range_log":   {"claim records", "get a record", "sweep"},
		"segment":     {"claim records", "get a record", "status", "stats", "sweep"},
		"claim_range": {"claim records", "get a record", "status", "stats", "sweep"},
		"scope":       {"get", "messages", "dead letters", "scopes", "sweep"},
		"maintenance": {"stats", "sweep"},
		"owner":       {"claim", "status", "stats", "sweep", "beat", "leave", "join"},
	} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false)
			file := w.app.main
			if table == "owner" {
				file = w.app.owners
			}
			w.exec(t, file, "ALTER TABLE ackledger_"+table+" RENAME TO gone")
			for _, call := range failing {
				if err := calls[call](t.Context(), w); err == nil || !strings.Contains(err.Error(), "no such table") {
					t.Errorf("%s: %v, want an error that says what cannot be read", call, err)
				}
			}
		})
	}
}

// TestUnreadableLogIsNoNewOne: a log that is there and cannot be read is not begun anew.
func TestUnreadableLogIsNoNewOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.exec(t, w.app.main, "UPDATE ackledger_range_log SET version = -1")
	if err := w.claim(t.Context(), records(5, 20)...); err == nil || !strings.Contains(err.Error(), "reading log") {
		t.Errorf("%v, want that the log cannot be read", err)
	}
}

// TestUnwrittenIsNoAnswer: what cannot be written fails its call, changes nothing, and goes through once it can be.
func TestUnwrittenIsNoAnswer(t *testing.T) {
	t.Parallel()
	release := func(i int) func(context.Context, *world) error {
		return func(ctx context.Context, w *world) error {
			return w.settle(ctx, ledger.Settlement{Ticket: w.range_[i], Kind: ledger.Release, Count: true, After: time.Hour})
		}
	}
	finish := func(ctx context.Context, w *world) error {
		var all []ledger.Settlement
		for _, ticket := range w.range_[1:] {
			all = append(all, ledger.Settlement{Ticket: ticket, Kind: ledger.Succeed})
		}
		err := w.settle(ctx, all...)
		if err == nil {
			_, err = w.o.Beat(ctx)
		}
		return err
	}
	for name, c := range map[string]struct {
		bare   bool
		before string // what happens to the file first; may be empty
		on     string // the event that fails
		call   func(context.Context, *world) error
	}{
		"a row that leaves its range": {on: "INSERT ON ackledger_message", call: release(3)},
		"a range that is altered":     {on: "UPDATE ON ackledger_claim_range", call: release(4)},
		"a range that is closed":      {on: "DELETE ON ackledger_claim_range", call: finish},
		"a segment of a range":        {on: "INSERT ON ackledger_segment", call: finish},
		"a new range":                 {on: "INSERT ON ackledger_claim_range", call: func(ctx context.Context, w *world) error { return w.claim(ctx, records(20, 25)...) }},
		"a new row":                   {on: "INSERT ON ackledger_message", call: func(ctx context.Context, w *world) error { return w.claim(ctx, message("new")) }},
		"an audit row":                {on: "INSERT ON ackledger_audit", call: purge},
		"an archive that is emptied":  {on: "UPDATE ON ackledger_archive", call: purge},
		"a sweep's message":           {before: "UPDATE ackledger_message SET expiry = 1", on: "DELETE ON ackledger_message", call: func(ctx context.Context, w *world) error { return w.sweep(ctx) }},
		"a sweep's archive":           {before: "UPDATE ackledger_archive SET expiry = 1", on: "DELETE ON ackledger_archive", call: func(ctx context.Context, w *world) error { return w.sweep(ctx) }},
		"a sweep's log":               {bare: true, before: "DELETE FROM ackledger_claim_range", on: "DELETE ON ackledger_range_log", call: func(ctx context.Context, w *world) error { return w.sweep(ctx) }},
		"the token of a sweep's log":  {bare: true, before: "DELETE FROM ackledger_claim_range", on: "INSERT ON ackledger_meta", call: func(ctx context.Context, w *world) error { return w.sweep(ctx) }},
		"the turn of a sweep":         {on: "UPDATE ON ackledger_maintenance", call: func(ctx context.Context, w *world) error { return w.sweep(ctx) }},
		"the end of a sweep":          {on: "UPDATE OF seen ON ackledger_maintenance", call: func(ctx context.Context, w *world) error { return w.sweep(ctx) }},
		"a hint that a letter was sent": {on: "UPDATE OF replayed_at ON ackledger_archive", call: func(ctx context.Context, w *world) error {
			return w.Audit(ctx, []ledger.AuditRecord{{By: tester, Action: ledger.ActionReplay, Key: message("failed").Key, Delivery: []byte("failed")}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.bare)
			if c.before != "" {
				w.exec(t, w.app.main, c.before)
			}
			was := w.dump(t)
			w.exec(t, w.app.main, "CREATE TRIGGER broken BEFORE "+c.on+" BEGIN SELECT RAISE(ABORT, 'the disk is broken'); END")
			if err := c.call(t.Context(), w); err == nil || !strings.Contains(err.Error(), "the disk is broken") {
				t.Fatalf("%v, want the error of the write", err)
			}
			w.exec(t, w.app.main, "DROP TRIGGER broken")
			if is := w.dump(t); is != was {
				t.Errorf("it was\n%sand is now\n%s", was, is)
			}
			if err := c.call(t.Context(), w); err != nil {
				t.Errorf("again: %v", err)
			}
		})
	}
}

var tester = ledger.By{Actor: "tester"}

func purge(ctx context.Context, w *world) error {
	report, err := w.Purge(ctx, ledger.PurgeRequest{Filter: ledger.Filter{Scope: "test"}, By: tester})
	if err == nil && report.Purged != 1 {
		err = fmt.Errorf("purged %d, want 1", report.Purged)
	}
	return err
}

// dump is all that the main file knows of messages.
func (w *world) dump(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	for _, columns := range []string{
		"id, state, token, owner, attempts, due, failed_delivery FROM ackledger_message",
		"id, delivery, body, purged_at, replayed_at FROM ackledger_archive",
		"token, first, last, owner, messages, done, back FROM ackledger_claim_range",
		"first, last, messages, kind FROM ackledger_segment",
		"action, detail FROM ackledger_audit",
	} {
		rows, err := w.app.main.QueryContext(t.Context(), "SELECT "+columns+" ORDER BY 1, 2")
		if err != nil {
			t.Fatal(err)
		}
		names, err := rows.Columns()
		for err == nil && rows.Next() {
			row := make([]any, len(names))
			for i := range row {
				row[i] = new(any)
			}
			err = rows.Scan(row...)
			for i, name := range names {
				fmt.Fprintf(&out, "%s=%q ", name, fmt.Sprint(*row[i].(*any)))
			}
			out.WriteByte('\n')
		}
		if err = errors.Join(err, rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// TestSweepWaitsForItsTurn: Sweep waits for another process that sweeps until its ctx ends, and says so.
func TestSweepWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.exec(t, w.app.main, "UPDATE ackledger_maintenance SET holder = 'another', lease_end = 1 << 60")
	if err := w.sweep(soon(t)); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "another process sweeps") {
		t.Errorf("%v, want that another process sweeps", err)
	}
	w.exec(t, w.app.main, "UPDATE ackledger_maintenance SET lease_end = 1")
	if err := w.sweep(t.Context()); err != nil {
		t.Errorf("after its lease: %v", err)
	}
}

// TestRanges_TxOfALostRange: an InTx writes nothing into a range that is another owner's, or gone: its effects are rolled back.
func TestRanges_TxOfALostRange(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]string{
		"another's": "UPDATE ackledger_claim_range SET owner = owner + 1",
		"gone":      "DELETE FROM ackledger_claim_range",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, app := openAt(t, fresh(t), nil)
			_, a := rangedBatch(t, l, 10, 14)
			if _, err := app.main.ExecContext(t.Context(), lose); err != nil {
				t.Fatal(err)
			}
			if err := sqlite.InTx(ledger.WithAttempt(t.Context(), a), effect); !ledger.IsLost(err) {
				t.Errorf("%v, want that the range is lost", err)
			}
			if got, err := effects(t.Context(), app.main); err != nil || len(got) != 0 {
				t.Errorf("effects %v, %v, want none", got, err)
			}
			var done int
			if err := app.main.QueryRowContext(t.Context(), "SELECT count(*) FROM ackledger_claim_range WHERE length(done) > 0").Scan(&done); err != nil || done != 0 {
				t.Errorf("%d ranges have something done, %v", done, err)
			}
		})
	}
}

// TestLongestLease: a lease may be as long as the longest window, and no longer.
func TestLongestLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	if o, err := w.Join(t.Context(), ledger.MaxWindow); err != nil || o.ID() == w.o.ID() {
		t.Errorf("the longest: %v", err)
	}
	for _, lease := range []time.Duration{0, ledger.MaxWindow + 1} {
		var bad *ledger.InvalidError
		if _, err := w.Join(t.Context(), lease); !errors.As(err, &bad) || bad.Field != "lease" {
			t.Errorf("%s: %v, want an InvalidError", lease, err)
		}
	}
}

// TestOpenWaitsForTheFile: a file that another process has locked is not opened before it is free: without WAL a reader would
// be in the writer's way.
func TestOpenWaitsForTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	a, err := openApp(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	conn, err := a.main.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"CREATE TABLE theirs (n)", "BEGIN EXCLUSIVE"} {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := sqlite.Open(soon(t), path, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want that the time is up", err)
	}
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	openAt(t, path, nil)
}

// TestSuccessWritesItsOwn: a success is written into its own row or range alone, and only while that is pending.
func TestSuccessWritesItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	succeed := func(a *ledger.Attempt) error { return sqlite.InTx(ledger.WithAttempt(t.Context(), a), effect) }
	const of = "SELECT done FROM ackledger_claim_range WHERE first = 0"
	var was, is []byte
	if err := w.app.main.QueryRowContext(t.Context(), of).Scan(&was); err != nil {
		t.Fatal(err)
	}
	claims, err := w.o.Claim(t.Context(), records(20, 24))
	if err != nil {
		t.Fatal(err)
	}
	if err := succeed(ledger.NewAttempt(w.o, claims[2].Ticket)); err != nil {
		t.Fatal(err)
	}
	if err := w.app.main.QueryRowContext(t.Context(), of).Scan(&is); err != nil || !bytes.Equal(was, is) {
		t.Errorf("the other range had %x done and has %x, %v", was, is, err)
	}

	claims, err = w.o.Claim(t.Context(), []ledger.Entry{message("settled"), message("in a transaction")})
	if err != nil {
		t.Fatal(err)
	}
	w.exec(t, w.app.main, "UPDATE ackledger_message SET state = 3 WHERE owner IS NOT NULL") // by another hand
	if err := w.settle(t.Context(), ledger.Settlement{Ticket: claims[0].Ticket, Kind: ledger.Succeed}); !ledger.IsLost(err) {
		t.Errorf("settled: %v, want that it is lost", err)
	}
	if err := succeed(ledger.NewAttempt(w.o, claims[1].Ticket)); !ledger.IsLost(err) {
		t.Errorf("in a transaction: %v, want that it is lost", err)
	}
}

// TestSweepStopsWhenItsTurnIsLost: a sweep that another process took for dead removes nothing more.
func TestSweepStopsWhenItsTurnIsLost(t *testing.T) {
	t.Parallel()
	for step, event := range map[string]string{"messages": "UPDATE OF next", "archives": "DELETE"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false)
			on := map[string]string{"messages": "maintenance", "archives": "archive"}[step]
			w.exec(t, w.app.main, "UPDATE ackledger_archive SET expiry = 1")
			w.exec(t, w.app.main, "CREATE TRIGGER lost AFTER "+event+" ON ackledger_"+on+
				" BEGIN UPDATE ackledger_maintenance SET holder = 'another'; END")
			if err := w.sweep(t.Context()); err == nil || !strings.Contains(err.Error(), "was lost to another process") {
				t.Errorf("%v, want that the turn was lost", err)
			}
			var holder string
			if err := w.app.main.QueryRowContext(t.Context(), "SELECT holder FROM ackledger_maintenance").Scan(&holder); err != nil || holder != "another" {
				t.Errorf("the turn is %q's, %v: it was given away", holder, err)
			}
		})
	}
}

// TestUnknownStateStays: a message whose state no program knows is not removed, and ends the sweep.
func TestUnknownStateStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	for _, expiry := range []string{"expiry", "1"} { // as it is, and long ago
		w.exec(t, w.app.main, "UPDATE ackledger_message SET state = 1 << 40, expiry = "+expiry)
		was := w.dump(t)
		if err := w.sweep(t.Context()); err == nil {
			t.Errorf("expiry %s: the sweep passes it", expiry)
		}
		if is := w.dump(t); is != was {
			t.Errorf("expiry %s: it was\n%sand is now\n%s", expiry, was, is)
		}
	}
}

// TestOwnersFileIsBusy: while another process has the owners file, an owner neither joins, nor lives on, nor leaves without
// saying so: nothing was written.
func TestOwnersFileIsBusy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	tx, err := w.app.owners.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, join := w.Join(soon(t), time.Minute)
	_, beat := w.o.Beat(soon(t))
	for call, err := range map[string]error{"join": join, "beat": beat, "leave": w.o.Leave(soon(t))} {
		if !errors.Is(err, sqlite.ErrBusy) || ledger.IsLost(err) {
			t.Errorf("%s: %v, want ErrBusy", call, err)
		}
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.o.Beat(t.Context()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
