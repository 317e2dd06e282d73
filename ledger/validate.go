package ledger

import (
	"fmt"
	"time"
)

// CheckEntry refuses an entry that no store can hold, by name. Stores call it before anything is sent.
func CheckEntry(e *Entry) error {
	switch {
	case e.Key.Scope == "" || len(e.Key.Scope) > MaxScope:
		return invalidLen("Entry.Key.Scope", 1, MaxScope, len(e.Key.Scope))
	case len(e.Key.ID) == 0 || len(e.Key.ID) > MaxID:
		return invalidLen("Entry.Key.ID", 1, MaxID, len(e.Key.ID))
	case e.Late == nil && len(e.Delivery) == 0 || len(e.Delivery) > MaxDelivery:
		return invalidLen("Entry.Delivery", 1, MaxDelivery, len(e.Delivery))
	case e.Window <= 0 || e.Window > MaxWindow:
		return invalidDuration("Entry.Window", e.Window)
	}
	if p := e.Key.Pos; p != nil && (p.Log == "" || p.Offset < 0 || p.Offset > MaxOffset) {
		return &InvalidError{Field: "Entry.Key.Pos", Bound: fmt.Sprintf("a log and an offset of 0 to %d", int64(MaxOffset)),
			Value: fmt.Sprintf("log %q offset %d", p.Log, p.Offset)}
	}
	return nil
}

// CheckSettlement refuses a settlement that no store can hold, by name. Stores call it before anything is sent.
func CheckSettlement(s *Settlement, limits Limits) error {
	if s.Ticket.IsZero() {
		return &InvalidError{Field: "Settlement.Ticket", Bound: "a claim's ticket", Value: "the zero ticket"}
	}
	switch s.Kind {
	case Succeed:
		return nil
	case Release:
		if s.After < 0 || s.After > MaxWindow {
			return &InvalidError{Field: "Settlement.After", Bound: fmt.Sprintf("0 to %s", MaxWindow), Value: s.After.String()}
		}
		return nil
	case Fail:
		return checkArchive(s.Dead, limits)
	case RecordStep:
		return checkStep(s.Step)
	}
	return &InvalidError{Field: "Settlement.Kind", Bound: "Succeed, Fail, Release or RecordStep", Value: fmt.Sprint(uint8(s.Kind))}
}

func checkArchive(a *Archive, limits Limits) error {
	switch {
	case a == nil:
		return &InvalidError{Field: "Settlement.Dead", Bound: "an archive with Fail", Value: "nil"}
	case len(a.Delivery) == 0 || len(a.Delivery) > MaxDelivery:
		return invalidLen("Archive.Delivery", 1, MaxDelivery, len(a.Delivery))
	case a.Key.Scope == "" || len(a.Key.Scope) > MaxScope:
		return invalidLen("Archive.Key.Scope", 1, MaxScope, len(a.Key.Scope))
	case len(a.Key.ID) > MaxID:
		return invalidLen("Archive.Key.ID", 0, MaxID, len(a.Key.ID))
	case a.Size() > limits.Archive:
		return invalidLen("Archive", 0, limits.Archive, a.Size())
	case a.Keep <= 0 || a.Keep > MaxWindow:
		return invalidDuration("Archive.Keep", a.Keep)
	}
	return nil
}

func invalidLen(field string, low, high, got int) error {
	return &InvalidError{Field: field, Bound: fmt.Sprintf("%d to %d bytes", low, high), Value: fmt.Sprintf("%d bytes", got)}
}

func invalidDuration(field string, got time.Duration) error {
	return &InvalidError{Field: field, Bound: fmt.Sprintf("above 0, at most %s", MaxWindow), Value: got.String()}
}
