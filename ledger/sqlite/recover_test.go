package sqlite_test

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/ledgertest"
	"github.com/ackledger/ackledger/ledger/sqlite"
	"github.com/ackledger/ackledger/ledger/storage"
)

// A restored ledger handed out tokens that had been handed out after its backup; and the next ones of a log were those of its ranges that
// were open.
func TestPitfall217_TokensGoOn(t *testing.T) {
	t.Parallel()
	ledgertest.RunRecover(t, open)
}

// A recovery that was killed between the two files: who opens the ledger next ends the owners of before.
func TestRecoverKilledBetweenFiles(t *testing.T) {
	t.Parallel()
	path := sqlite.Fresh(t)
	l, app := openAt(t, path, nil)
	o, err := l.Join(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	id, err := l.ID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	next := storage.InEpoch(id, 1, 7)
	if _, err := app.main.ExecContext(t.Context(), "UPDATE ackledger_meta SET value = ? WHERE key = 'ledger'", next); err != nil {
		t.Fatal(err)
	}
	again, _ := openAt(t, path, nil)
	if got, err := again.ID(t.Context()); err != nil || got != next {
		t.Errorf("the id is %q, %v; want %q", got, err, next)
	}
	if _, err := o.Beat(t.Context()); !ledger.IsLost(err) {
		t.Errorf("an owner of the epoch before beats: %v", err)
	}
}
