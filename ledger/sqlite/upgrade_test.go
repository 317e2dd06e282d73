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

// TestPitfall102_RollingDeploy: a migration stopped the workers that were still running, or lost what was there. A worker
// that was started on the first schema goes on while another one migrates the file.
func TestPitfall102_RollingDeploy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	old, app := openAt(t, path, nil)
	if err := sqlite.Downgrade(t.Context(), path, 1); err != nil {
		t.Fatal(err)
	}
	if err := old.PlayFirst(t.Context()); err != nil {
		t.Fatal(err)
	}
	o, err := old.Join(t.Context(), time.Minute)
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
	migrated := make(chan *sqlite.Ledger, 1)
	go func() {
		l, err := sqlite.Open(t.Context(), path, nil)
		if err != nil {
			t.Error(err)
		}
		migrated <- l
	}()
	var l *sqlite.Ledger
	for l == nil {
		select {
		case l = <-migrated:
			if l == nil {
				t.FailNow()
			}
		case err := <-rounds:
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	reach(20)
	if got := firstRows(t, app, "s1", "f1", "r1"); !slices.Equal(got, before) || len(got) != 4 {
		t.Errorf("the rows are\n%s\nwere\n%s", strings.Join(got, "\n"), strings.Join(before, "\n"))
	}
	if rec, err := l.Get(t.Context(), message("f1").Key); err != nil || rec.State != ledger.Failed || len(rec.Archived) != 1 {
		t.Errorf("f1: %+v, %v", rec, err)
	}
	if r, err := l.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil || r.Removed() != 0 || r.Rows < 120 {
		t.Errorf("sweep: %+v, %v", r, err)
	}
	reach(5)
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
