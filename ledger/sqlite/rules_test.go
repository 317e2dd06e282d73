package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// TestSweepWaitsForItsTurn: Sweep waits for another process that sweeps until its ctx ends, and leaves it the turn.
func TestSweepWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.exec(t, w.app.main, "UPDATE ackledger_maintenance SET holder = 'another', lease_end = 1 << 60")
	if err := w.sweep(soon(t)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want that the time is up", err)
	}
	var holder string
	if err := w.app.main.QueryRowContext(t.Context(), "SELECT holder FROM ackledger_maintenance").Scan(&holder); err != nil || holder != "another" {
		t.Errorf("the turn is %q's, %v, want it the other's", holder, err)
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
			l, app := openAt(t, sqlite.Fresh(t), nil)
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

// TestRefusedCommit: a COMMIT that the file refuses, as a deferred constraint of the application's does, is an error with nothing
// written, and the attempt stays open.
func TestRefusedCommit(t *testing.T) {
	t.Parallel()
	l, app := openAt(t, sqlite.Fresh(t), (&sqlite.Config{}).Break([]string{"foreign_keys = ON"}, nil, 0))
	for _, statement := range []string{
		"CREATE TABLE account (id TEXT PRIMARY KEY)",
		"CREATE TABLE booking (account TEXT REFERENCES account DEFERRABLE INITIALLY DEFERRED)",
	} {
		if _, err := app.main.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := o.Claim(t.Context(), []ledger.Entry{message("m")})
	if err != nil {
		t.Fatal(err)
	}
	a := ledger.NewAttempt(o, claims[0].Ticket)
	err = sqlite.InTx(ledger.WithAttempt(t.Context(), a), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO booking VALUES ('nobody')")
		return errors.Join(err, effect(ctx, tx))
	})
	if state, _ := a.State(); err == nil || ledger.Unknown(err) || ledger.IsLost(err) || state != ledger.AttemptOpen {
		t.Errorf("state %d, %v, want that the COMMIT was refused", state, err)
	}
	if got, err := effects(t.Context(), app.main); err != nil || len(got) != 0 {
		t.Errorf("effects %v, %v, want none", got, err)
	}
	if err := o.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := l.Get(t.Context(), message("m").Key); err != nil || r.State != ledger.Pending {
		t.Errorf("%+v, %v, want it pending", r, err)
	}
}

// TestRefusedSharedCommit: calls that share a transaction are answered with its COMMIT's error, and nothing of them is written.
func TestRefusedSharedCommit(t *testing.T) {
	t.Parallel()
	l, app := openAt(t, sqlite.Fresh(t), (&sqlite.Config{}).Break([]string{"foreign_keys = ON"}, nil, 0))
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"CREATE TABLE account (id TEXT PRIMARY KEY)",
		"CREATE TABLE booking (account TEXT REFERENCES account DEFERRABLE INITIALLY DEFERRED)",
		"CREATE TRIGGER books AFTER INSERT ON ackledger_message BEGIN INSERT INTO booking VALUES ('nobody'); END",
	} {
		if _, err := app.main.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if claims, err := o.Claim(t.Context(), []ledger.Entry{message("m")}); err == nil {
		t.Errorf("claimed: %+v", claims)
	}
	var rows int
	if err := app.main.QueryRowContext(t.Context(), "SELECT count(*) FROM ackledger_message").Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows, %v, want none", rows, err)
	}
}
