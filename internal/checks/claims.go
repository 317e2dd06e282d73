package checks

import (
	"fmt"

	"github.com/ackledger/ackledger/ledger"
)

// Entry refuses an entry that no store can hold.
func Entry(e *ledger.Entry) error {
	switch {
	case e.Key.Scope == "" || len(e.Key.Scope) > ledger.MaxScope:
		return length("Entry.Key.Scope", 1, ledger.MaxScope, len(e.Key.Scope))
	case len(e.Key.ID) == 0 || len(e.Key.ID) > ledger.MaxID:
		return length("Entry.Key.ID", 1, ledger.MaxID, len(e.Key.ID))
	case e.Late == nil && len(e.Delivery) == 0 || len(e.Delivery) > ledger.MaxDelivery:
		return length("Entry.Delivery", 1, ledger.MaxDelivery, len(e.Delivery))
	case e.Window <= 0 || e.Window > ledger.MaxWindow:
		return duration("Entry.Window", e.Window)
	}
	if p := e.Key.Pos; p != nil && (p.Log == "" || p.Offset < 0 || p.Offset > ledger.MaxOffset) {
		return &ledger.InvalidError{Field: "Entry.Key.Pos", Bound: fmt.Sprintf("a log and an offset of 0 to %d", int64(ledger.MaxOffset)),
			Value: fmt.Sprintf("log %q offset %d", p.Log, p.Offset)}
	}
	return nil
}

// Settlement refuses a settlement that no store can hold.
func Settlement(s *ledger.Settlement, limits ledger.Limits) error {
	if s.Ticket.IsZero() {
		return &ledger.InvalidError{Field: "Settlement.Ticket", Bound: "a claim's ticket", Value: "the zero ticket"}
	}
	switch s.Kind {
	case ledger.Succeed:
		return nil
	case ledger.Park:
		if s.After <= 0 || s.After > ledger.MaxPark {
			return &ledger.InvalidError{Field: "Settlement.After", Bound: fmt.Sprintf("above 0, at most %s", ledger.MaxPark), Value: s.After.String()}
		}
		if s.Ticket.IsMismatch() {
			return &ledger.InvalidError{Field: "Settlement.Ticket", Bound: "a claim's ticket with Park", Value: "a mismatch's"}
		}
		if l := s.Lane; l != nil && (len(l.Name) == 0 || len(l.Name) > ledger.MaxParkLane || l.Place < ledger.PlaceLast) {
			return &ledger.InvalidError{Field: "Settlement.Lane", Bound: fmt.Sprintf("a name of 1 to %d bytes and a place from 0 on, or PlaceLast", ledger.MaxParkLane),
				Value: fmt.Sprintf("%d bytes, place %d", len(l.Name), l.Place)}
		}
		return archive(s.Dead, limits)
	case ledger.Release:
		if s.After < 0 || s.After > ledger.MaxWindow {
			return &ledger.InvalidError{Field: "Settlement.After", Bound: fmt.Sprintf("0 to %s", ledger.MaxWindow), Value: s.After.String()}
		}
		return nil
	case ledger.Fail:
		return archive(s.Dead, limits)
	case ledger.RecordStep:
		if s.Step == nil {
			return &ledger.InvalidError{Field: "Settlement.Step", Bound: "a step with RecordStep", Value: "nil"}
		}
		return s.Step.Check()
	}
	return &ledger.InvalidError{Field: "Settlement.Kind", Bound: "Succeed, Fail, Release, RecordStep or Park", Value: fmt.Sprint(uint8(s.Kind))}
}

// Due refuses a request that no store answers.
func Due(r *ledger.DueRequest) error {
	switch {
	case r.Scope == "" || len(r.Scope) > ledger.MaxScope:
		return length("DueRequest.Scope", 1, ledger.MaxScope, len(r.Scope))
	case r.Most < 1 || r.Most > ledger.MaxDue:
		return &ledger.InvalidError{Field: "DueRequest.Most", Bound: fmt.Sprintf("1 to %d", ledger.MaxDue), Value: fmt.Sprint(r.Most)}
	case r.Bytes <= 0:
		return &ledger.InvalidError{Field: "DueRequest.Bytes", Bound: "above 0", Value: fmt.Sprint(r.Bytes)}
	case r.Hide <= 0 || r.Hide > ledger.MaxWindow:
		return duration("DueRequest.Hide", r.Hide)
	}
	return nil
}

// ParkedLane refuses a lane that no store has.
func ParkedLane(scope string, lane []byte) error {
	switch {
	case scope == "" || len(scope) > ledger.MaxScope:
		return length("ParkedLane.scope", 1, ledger.MaxScope, len(scope))
	case len(lane) == 0 || len(lane) > ledger.MaxParkLane:
		return length("ParkedLane.lane", 1, ledger.MaxParkLane, len(lane))
	}
	return nil
}

// ParkedLanes refuses what no store lists.
func ParkedLanes(scope string, prefix []byte, most int) error {
	switch {
	case scope == "" || len(scope) > ledger.MaxScope:
		return length("ParkedLanes.scope", 1, ledger.MaxScope, len(scope))
	case len(prefix) > ledger.MaxParkLane:
		return length("ParkedLanes.prefix", 0, ledger.MaxParkLane, len(prefix))
	case most < 1 || most > ledger.MaxParkedLanes:
		return length("ParkedLanes.most", 1, ledger.MaxParkedLanes, most)
	}
	return nil
}

func archive(a *ledger.Archive, limits ledger.Limits) error {
	switch {
	case a == nil:
		return &ledger.InvalidError{Field: "Settlement.Dead", Bound: "an archive with Fail or Park", Value: "nil"}
	case len(a.Delivery) == 0 || len(a.Delivery) > ledger.MaxDelivery:
		return length("Archive.Delivery", 1, ledger.MaxDelivery, len(a.Delivery))
	case a.Key.Scope == "" || len(a.Key.Scope) > ledger.MaxScope:
		return length("Archive.Key.Scope", 1, ledger.MaxScope, len(a.Key.Scope))
	case len(a.Key.ID) > ledger.MaxID:
		return length("Archive.Key.ID", 0, ledger.MaxID, len(a.Key.ID))
	case a.Size() > limits.Archive:
		return length("Archive", 0, limits.Archive, a.Size())
	case a.Keep <= 0 || a.Keep > ledger.MaxWindow:
		return duration("Archive.Keep", a.Keep)
	}
	return nil
}
