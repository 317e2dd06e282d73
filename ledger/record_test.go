package ledger_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

func TestArchiveSizeAndClone(t *testing.T) {
	a := ledger.Archive{
		Key: at("s", "log", 1, 2), Delivery: []byte("d"), Body: []byte("body"), Errors: []ledger.AttemptError{{Error: "x"}},
		Headers: []ledger.Header{{Name: "name", Value: []byte("value"), Type: "String"}, {Name: "nil"}},
	}
	if got := a.Size(); got != 4+4+5+6+3 {
		t.Errorf("size %d, want 22", got)
	}
	b := a.Clone()
	a.Key.Pos.Offset, a.Key.ID[0], a.Delivery[0], a.Body[0], a.Errors[0].Error, a.Headers[0].Value[0] = 9, 'X', 'X', 'X', "X", 'X'
	if b.Key.Pos.Offset != 2 || string(b.Key.ID) != "id" || string(b.Delivery) != "d" || string(b.Body) != "body" ||
		b.Errors[0].Error != "x" || string(b.Headers[0].Value) != "value" || b.Headers[1].Value != nil {
		t.Errorf("the copy shares bytes: %+v", b)
	}
}

func TestErrors(t *testing.T) {
	cause := errors.New("connection reset")
	unknown, unusable := ledger.MarkUnknown(cause), ledger.MarkUnusable(cause)
	wrapped := fmt.Errorf("claim: %w", unknown)
	if !ledger.Unknown(wrapped) || !errors.Is(wrapped, cause) || ledger.Unusable(wrapped) || ledger.IsLost(wrapped) {
		t.Errorf("%v does not read as unknown", wrapped)
	}
	if !ledger.Unusable(unusable) || !errors.Is(unusable, cause) || ledger.Unknown(unusable) {
		t.Errorf("%v does not read as unusable", unusable)
	}
	if ledger.MarkUnknown(nil) != nil || ledger.MarkUnusable(nil) != nil {
		t.Error("nil became an error")
	}
	if ledger.MarkUnknown(wrapped).Error() != wrapped.Error() || ledger.MarkUnusable(unusable).Error() != unusable.Error() {
		t.Error("an error was marked twice")
	}
	if !ledger.IsLost(fmt.Errorf("beat: %w", ledger.ErrLost)) || ledger.IsLost(cause) || ledger.Unknown(nil) {
		t.Error("IsLost or Unknown is wrong")
	}
	invalid := &ledger.InvalidError{Field: "Entry.Window", Bound: "above 0", Value: "-1s", Err: cause}
	if got := invalid.Error(); got != "ledger: Entry.Window: must be above 0, is -1s: connection reset" || !errors.Is(invalid, cause) {
		t.Errorf("%s", got)
	}
}

func TestZeroValuesAreSafe(t *testing.T) {
	var (
		c ledger.Claim
		d ledger.Decision
		k ledger.SettleKind
		s ledger.State
	)
	if c.Answer != ledger.Busy || d.Answer != ledger.Busy || d.Write {
		t.Error("a zero answer runs or acknowledges")
	}
	if k.String() != "invalid" || s.String() != "invalid" || ledger.Answer(99).String() != "invalid" {
		t.Error("a zero kind or state has a meaning")
	}
	names := fmt.Sprint(ledger.Busy, ledger.Run, ledger.Done, ledger.Spent, ledger.Mismatch, ledger.Pending,
		ledger.Succeeded, ledger.Failed, ledger.Succeed, ledger.Fail, ledger.Release)
	if names != "busy run done spent mismatch pending succeeded failed succeed fail release" {
		t.Errorf("%s", names)
	}
}
