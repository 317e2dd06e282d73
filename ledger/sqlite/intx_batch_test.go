package sqlite_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/sqlite"
)

// newBatchRun is newRun with a second message: the attempt is of both. It returns the second one.
func newBatchRun(t *testing.T, c *sqlite.Config) (*run, ledger.Entry) {
	t.Helper()
	r := newRun(t, c)
	second := message("n")
	claims, err := r.o.Claim(t.Context(), []ledger.Entry{second})
	if err != nil || claims[0].Answer != ledger.Run {
		t.Fatalf("claim: %+v, %v", claims, err)
	}
	r.a = ledger.NewBatchAttempt(r.o, []ledger.Ticket{r.claim.Ticket, claims[0].Ticket})
	r.ctx = ledger.WithAttempt(t.Context(), r.a)
	return r, second
}

func (r *run) wantRow(e ledger.Entry, want ledger.State) {
	r.Helper()
	if rec, err := r.l.Get(r.Context(), e.Key); err != nil || rec.State != want {
		r.Errorf("the second row is %v (%v), want %v", rec.State, err, want)
	}
}

// The COMMIT of a batch landed and its answer was lost: the rows are read, and say so. Nothing of it runs again.
func TestPitfall25_BatchCommitAnswerLost(t *testing.T) {
	t.Parallel()
	r, second := newBatchRun(t, broken(0, func(tx driver.Tx) error { return errors.Join(errWire, tx.Commit()) }))
	if err := sqlite.InTx(r.ctx, effect); err != nil {
		t.Errorf("InTx: %v; the rows say that it was committed", err)
	}
	r.want(ledger.AttemptSucceeded, 1, ledger.Succeeded)
	r.wantRow(second, ledger.Succeeded)
}

// The COMMIT of a batch was aborted and its answer lost: nothing of it is marked as succeeded.
func TestPitfall119_BatchCommitAborted(t *testing.T) {
	t.Parallel()
	r, second := newBatchRun(t, broken(0, func(tx driver.Tx) error { return errors.Join(errWire, tx.Rollback()) }))
	if err := sqlite.InTx(r.ctx, effect); !errors.Is(err, errWire) || ledger.Unknown(err) {
		t.Errorf("InTx: %v; want the COMMIT's error, and known to be rolled back", err)
	}
	r.want(ledger.AttemptOpen, 0, ledger.Pending)
	r.wantRow(second, ledger.Pending)
}

// A batch handler that ends the transaction as text settles none of its messages.
func TestPitfall85_BatchUserCommits(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"ROLLBACK", "ROLLBACK; BEGIN IMMEDIATE", "COMMIT", "COMMIT; BEGIN IMMEDIATE"} {
		r, second := newBatchRun(t, nil)
		err := sqlite.InTx(r.ctx, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, text)
			return err
		})
		if !errors.Is(err, sqlite.ErrEnded) {
			t.Errorf("%s: InTx: %v, want %v", text, err, sqlite.ErrEnded)
		}
		r.want(ledger.AttemptOpen, 0, ledger.Pending)
		r.wantRow(second, ledger.Pending)
	}
}
