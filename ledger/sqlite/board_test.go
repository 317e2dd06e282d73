package sqlite_test

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger/ledgertest"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

func TestBoard(t *testing.T) {
	t.Parallel()
	shared := open(t)
	ledgertest.RunBoard(t, func(*testing.T) ledgertest.Store { return shared })
}

// Workers of version 8 beat in a file of now, as they did, and show without a report. A file that is taken back keeps its owners.
func TestFromEight(t *testing.T) {
	t.Parallel()
	path := sqlite.Fresh(t)
	l, app := openAt(t, path, nil)
	if err := sqlite.MigrateTo(t.Context(), path, 8); err != nil {
		t.Fatal(err)
	}
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	beat := func(when string) {
		t.Helper()
		res, err := app.owners.ExecContext(t.Context(), "UPDATE ackledger_owner SET lease_end = ? WHERE id = ? AND fate = 1", time.Now().Add(time.Minute).UnixMicro(), o.ID())
		if err != nil {
			t.Fatal(err)
		}
		if n, err := res.RowsAffected(); err != nil || n != 1 {
			t.Errorf("%s: a beat of version 8 changed %d owners, %v", when, n, err)
		}
	}
	beat("before")
	if err := sqlite.MigrateTo(t.Context(), path, 9); err != nil {
		t.Fatal(err)
	}
	beat("after")
	all, err := l.Workers(t.Context())
	if err != nil || len(all) != 1 || all[0].Owner != o.ID() || !all[0].Report.Started.IsZero() {
		t.Errorf("%+v, %v", all, err)
	}
	if err := sqlite.MigrateTo(t.Context(), path, 8); err != nil {
		t.Fatal(err)
	}
	beat("taken back")
}
