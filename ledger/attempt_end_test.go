package ledger_test

import (
	"errors"
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

// A transaction that ended without effect and without an error ended with ErrSettled: no second one begins in its place.
func TestAttemptThatEndsOpenHasAnError(t *testing.T) {
	a := ledger.NewAttempt(nil, ledger.Ticket{})
	a.End(ledger.AttemptOpen, nil)
	if state, err := a.State(); state != ledger.AttemptOpen || !errors.Is(err, ledger.ErrSettled) {
		t.Errorf("state %d, %v", state, err)
	}
	if err := a.Begin(); !errors.Is(err, ledger.ErrSettled) {
		t.Errorf("a second transaction: %v", err)
	}
}

// An outage is told from a failure through any wrapping, is marked once, and says what it is.
func TestMarkUnavailable(t *testing.T) {
	cause := errors.New("connection reset")
	marked := ledger.MarkUnavailable(cause)
	if !ledger.Unavailable(marked) || !errors.Is(marked, cause) || ledger.Unavailable(cause) || ledger.MarkUnavailable(nil) != nil {
		t.Errorf("%v does not read as unavailable", marked)
	}
	if got := ledger.MarkUnavailable(marked).Error(); got != "ledger: unavailable: connection reset" {
		t.Error(got)
	}
}

// What the database refuses is told from what it does not answer, through any wrapping; what is unusable is refused as well.
func TestMarkRefused(t *testing.T) {
	cause := errors.New("ValidationException: two SETs")
	marked := ledger.MarkRefused(cause)
	if !ledger.Refused(marked) || !errors.Is(marked, cause) || ledger.Refused(cause) || ledger.MarkRefused(nil) != nil {
		t.Errorf("%v does not read as refused", marked)
	}
	if ledger.Unusable(marked) || ledger.Unavailable(marked) || ledger.Unknown(marked) {
		t.Error("it reads as more than refused")
	}
	if !ledger.Refused(ledger.MarkUnusable(cause)) {
		t.Error("what is unusable is not refused")
	}
}
