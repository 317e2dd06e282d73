package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ackledger/ackledger/ledger"
)

// pooled is what PgBouncer before 1.16 says of a server connection that broke: an ERROR, as of a statement that was refused.
// It hangs up then; other poolers might be ready for more.
func pooled(t *testing.T, ready bool) []byte {
	t.Helper()
	words, err := (&pgproto3.ErrorResponse{Severity: "ERROR", Code: "08P01", Message: "server conn crashed?"}).Encode(nil)
	if err == nil && ready {
		words, err = (&pgproto3.ReadyForQuery{TxStatus: 'I'}).Encode(words)
	}
	if err != nil {
		t.Fatal(err)
	}
	return words
}

// TestPoolerSaysError: a pooler that lost its server in the middle of a statement said ERROR, and what the server had carried
// out counted as not written.
func TestPoolerSaysError(t *testing.T) {
	t.Parallel()
	l := newLossy(t, variant{})
	own := ledger.Unwrap(l.owner) // the group would wait for the flush's own deadline
	lost := entry("lost-on-the-wire")
	l.cut.answerAfter("lost-on-the-wire", pooled(t, false))
	if _, err := own.Claim(t.Context(), []ledger.Entry{lost}); !ledger.Unknown(err) {
		t.Errorf("claim: %v", err)
	}
	c := claimOne(t, own, lost, ledger.Run)
	s := ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed, Result: []byte("the-result-is-lost")}
	l.cut.answerAfter("the-result-is-lost", pooled(t, false))
	if _, err := own.Settle(t.Context(), []ledger.Settlement{s}); !ledger.Unknown(err) {
		t.Errorf("settle: %v", err)
	}
	if err := settleOne(t, own, s); err != nil || l.cut.count() != 2 {
		t.Errorf("settled again: %v, %d cuts", err, l.cut.count())
	}
}

// TestPoolerSaysErrorToCommit: so said it of a COMMIT, and the handler's effect was repeated.
func TestPoolerSaysErrorToCommit(t *testing.T) {
	t.Parallel()
	bothTxs(t, func(t *testing.T, v variant) {
		for _, ready := range []bool{false, true} {
			l := newLossy(t, v)
			l.cut.answerAfter("commit\x00", pooled(t, ready))
			a, err := l.attempt(t)
			if state, _ := a.State(); err != nil || state != ledger.AttemptSucceeded || l.cut.count() != 1 {
				t.Errorf("InTx, ready %v: %v, state %d, %d cuts", ready, err, state, l.cut.count())
			}
		}
	})
}

// TestPoolerSaysErrorInside: and of a statement before it, which counted as the handler's failure.
func TestPoolerSaysErrorInside(t *testing.T) {
	t.Parallel()
	bothTxs(t, func(t *testing.T, v variant) {
		l := newLossy(t, v)
		l.cut.answerAfter("the-effect", pooled(t, false))
		a := ledger.NewAttempt(l.owner, l.claim.Ticket)
		run := inTx
		if l.sql {
			run = inSQLTx
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		err := run(ledger.WithAttempt(ctx, a), func(ctx context.Context) error {
			return ctx.Value(inserterKey{}).(inserter)(ctx, "the-effect")
		})
		if state, _ := a.State(); !ledger.Unavailable(err) || state != ledger.AttemptOpen || l.cut.count() != 1 {
			t.Errorf("InTx: %v, state %d, %d cuts", err, state, l.cut.count())
		}
	})
}
