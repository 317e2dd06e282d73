package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// TestPitfall102_RollingDeploy: a migration lost what was there, or left workers that do not know of it beside those that
// do. A worker that was started on the first schema goes on until another one has migrated the file; then it knows nothing
// of ranges, so it claims nothing more, and finishes what it has.
func TestPitfall102_RollingDeploy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	old, app := openAt(t, path, nil)
	if err := sqlite.MigrateTo(t.Context(), path, 1); err != nil {
		t.Fatal(err)
	}
	if err := old.PlayFirst(t.Context()); err != nil {
		t.Fatal(err)
	}
	o, err := old.JoinFirst(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	rounds := make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		defer close(rounds)
		for n := 0; ; n++ {
			select {
			case rounds <- round(t.Context(), o, n):
			case <-ctx.Done():
				return
			}
		}
	}()
	reach := func(n int) {
		t.Helper()
		for range n {
			if err := <-rounds; err != nil {
				t.Fatal(err)
			}
		}
	}
	reach(20)
	before := firstRows(t, app, "s1", "f1", "r1")
	held, err := o.Claim(t.Context(), []ledger.Entry{message("held"), message("left")})
	if err != nil {
		t.Fatal(err)
	}
	l := migrateBeside(t, path, rounds)
	stop()
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	finishesOnly(t, old, o, held[0])
	if got := firstRows(t, app, "s1", "f1", "r1"); !slices.Equal(got, before) || len(got) != 4 {
		t.Errorf("the rows are\n%s\nwere\n%s", strings.Join(got, "\n"), strings.Join(before, "\n"))
	}
	if rec, err := l.Get(t.Context(), message("f1").Key); err != nil || rec.State != ledger.Failed || len(rec.Archived) != 1 {
		t.Errorf("f1: %+v, %v", rec, err)
	}
	if r, err := l.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil || r.Removed() != 0 || r.Rows < 60 {
		t.Errorf("sweep: %+v, %v", r, err)
	}
	n, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := n.Claim(t.Context(), []ledger.Entry{message("held"), message("left")})
	if err != nil || claims[0].Answer != ledger.Done || claims[1].Answer != ledger.Run || claims[1].Crashes != 0 {
		t.Errorf("the new worker: %+v, %v", claims, err)
	}
	if err := round(t.Context(), n, 10_000); err != nil {
		t.Error(err)
	}
}

// migrateBeside opens the ledger as a program of now, while a worker of the first schema goes on.
func migrateBeside(t *testing.T, path string, rounds <-chan error) *sqlite.Ledger {
	t.Helper()
	migrated := make(chan *sqlite.Ledger, 1)
	go func() {
		l, err := sqlite.Open(t.Context(), path, nil)
		if err != nil {
			t.Error(err)
		}
		migrated <- l
	}()
	for {
		select {
		case l := <-migrated:
			if l == nil {
				t.FailNow()
			}
			return l
		case err := <-rounds:
			if err != nil && !ledger.IsLost(err) {
				t.Fatal(err)
			}
		}
	}
}

// finishesOnly checks what a worker of before the migration may do.
func finishesOnly(t *testing.T, old *sqlite.Ledger, o ledger.Owner, held ledger.Claim) {
	t.Helper()
	errs, err := o.Settle(t.Context(), []ledger.Settlement{{Ticket: held.Ticket, Kind: ledger.Succeed}})
	if err != nil || errs[0] != nil {
		t.Errorf("settle: %v, %v", errs, err)
	}
	if _, err := o.Claim(t.Context(), []ledger.Entry{message("another")}); !ledger.IsLost(err) {
		t.Errorf("claim: %v, want ErrLost", err)
	}
	if _, err := o.Beat(t.Context()); !ledger.IsLost(err) {
		t.Errorf("beat: %v, want ErrLost", err)
	}
	if _, err := old.JoinFirst(t.Context(), time.Minute); err == nil || !strings.Contains(err.Error(), "too old") {
		t.Errorf("an old worker joins: %v", err)
	}
}

// firstRows shows everything that the first schema had of messages.
func firstRows(t *testing.T, a *app, ids ...string) (out []string) {
	t.Helper()
	for _, id := range ids {
		for _, query := range []string{
			`SELECT concat_ws(' ', hex(key), id, hex(fingerprint), state, token, owner, attempts, crashes, generation, due, at,
				expiry, failed_delivery, hex(errors), result) FROM ackledger_message WHERE id = ?`,
			`SELECT concat_ws(' ', hex(key), delivery, id, hex(fingerprint), token, generation, kind, hex(errors), source, grp,
				attempts, sent_at, published, at, expiry, headers, body) FROM ackledger_archive WHERE id = ?`,
		} {
			var row string
			switch err := a.main.QueryRowContext(t.Context(), query, []byte(id)).Scan(&row); {
			case err == nil:
				out = append(out, row)
			case !errors.Is(err, sql.ErrNoRows):
				t.Fatal(err)
			}
		}
	}
	return out
}

// round claims three messages, and settles each in another way.
func round(ctx context.Context, o ledger.Owner, n int) error {
	entries := []ledger.Entry{message(fmt.Sprint("s", n)), message(fmt.Sprint("f", n)), message(fmt.Sprint("r", n))}
	claims, err := o.Claim(ctx, entries)
	if err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	errs, err := o.Settle(ctx, []ledger.Settlement{
		{Ticket: claims[0].Ticket, Kind: ledger.Succeed},
		{Ticket: claims[1].Ticket, Kind: ledger.Fail, Dead: &ledger.Archive{Key: entries[1].Key, Delivery: entries[1].Delivery, Keep: time.Hour}},
		{Ticket: claims[2].Ticket, Kind: ledger.Release},
	})
	for i, e := range errs {
		if e != nil {
			return fmt.Errorf("settle %d: %w", i, e)
		}
	}
	return err
}
