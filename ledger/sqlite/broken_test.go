package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
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
	path   string
	app    *app
	o      ledger.Owner
	range_ []ledger.Ticket
	failed ledger.Ticket
}

func newWorld(t *testing.T, bare bool) *world {
	t.Helper()
	w := &world{}
	w.path = sqlite.Fresh(t)
	w.Ledger, w.app = openAt(t, w.path, nil)
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
	workers := []string{"claim", "claim records", "beat", "leave", "join"}
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
				} else if slices.Contains(workers, call) && !ledger.Refused(err) {
					t.Errorf("%s: %v reads as an outage that heals", call, err)
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

// TestGarbledIsNoAnswer: what is there and cannot be understood is an error as well.
func TestGarbledIsNoAnswer(t *testing.T) {
	t.Parallel()
	letters := func(ctx context.Context, w *world) (failed error) {
		for _, err := range w.DeadLetters(ctx, ledger.Filter{Body: true}) {
			failed = err
		}
		return failed
	}
	get := func(e ledger.Entry) func(context.Context, *world) error {
		return func(ctx context.Context, w *world) error { _, err := w.Get(ctx, e.Key); return err }
	}
	open := func(ctx context.Context, w *world) error {
		l, err := sqlite.Open(ctx, w.path, nil)
		if err != nil {
			return err
		}
		return l.Close()
	}
	for garble, call := range map[string]func(context.Context, *world) error{
		"UPDATE ackledger_archive SET errors = x'ff'":                letters,
		"UPDATE ackledger_archive SET headers = x'ff'":               letters,
		"UPDATE ackledger_archive SET headers = x'fe'":               get(message("failed")),
		"UPDATE ackledger_message SET errors = x'ff'":                get(message("failed")),
		"UPDATE ackledger_claim_range SET done = x'ff'":              get(record(3)),
		"UPDATE ackledger_claim_range SET back = x'ff'":              func(ctx context.Context, w *world) error { return w.claim(ctx, records(3, 12)...) },
		"DELETE FROM ackledger_meta WHERE key = 'schema'":            open,
		"DELETE FROM ackledger_meta WHERE key = 'oldest_worker'":     open,
		"UPDATE ackledger_meta SET value = 'x' WHERE key = 'schema'": open,
	} {
		t.Run(garble, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false)
			if err := call(t.Context(), w); err != nil {
				t.Fatalf("before: %v", err)
			}
			w.exec(t, w.app.main, garble)
			if err := call(t.Context(), w); err == nil {
				t.Error("it is answered")
			}
		})
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
		"how far a sweep is":          {on: "UPDATE OF next ON ackledger_maintenance", call: func(ctx context.Context, w *world) error { return w.sweep(ctx) }},
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
			w.exec(t, w.app.main, "UPDATE ackledger_maintenance SET lease_end = 0") // a sweep that could not give its turn back
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
