package ledger

import (
	"context"
	"fmt"
	"iter"
)

// ParkingOperator is what people and their tools ask of a ledger about what is parked. Stores that park are ParkingOperators. Lists and
// writes are as those of [Operator], and need the same rights.
type ParkingOperator interface {
	Parking

	// ParkedMessages lists what is parked, scope by scope, those first that are looked at first. Filter.From and To are of when a message
	// was parked; State must be zero or pending, and what only dead letters have must not be set. The errors are those of the attempts
	// so far. What is looked at meanwhile may be missed or come twice.
	ParkedMessages(ctx context.Context, f Filter) iter.Seq2[ParkedMessage, error]

	// CountParked counts what is parked, by scope; scopes of which nothing is parked are left out. It reads an index.
	CountParked(ctx context.Context) (map[string]ParkedStats, error)

	// ChangeParked has parked messages run now, or ends them: see [ParkedRequest]. It leaves what somebody has, and what has changed
	// since it was listed.
	ChangeParked(ctx context.Context, r ParkedRequest) (ParkedReport, error)
}

// ParkedMessage is one parked message of a list.
type ParkedMessage struct {
	Parked
	Status Status // of its message as of the same moment: DueIn is when its next attempt is due
}

// ParkedRequest selects parked messages.
type ParkedRequest struct {
	Filter Filter // as of ParkedMessages
	// Action is what becomes of them. [ActionRunNow]: they are due now, and a worker of their scope takes them when it looks next.
	// [ActionDrop]: they fail for good, each with its dead letter in the archive, of kind [KindDropped]; none is published.
	//
	// What is dropped lets what is behind it in its lane move within the list. So a drop goes through the list again until it finds no more
	// of what was parked when it began.
	Action   Action
	DryRun   bool // only counts
	By       By
	Progress func(ParkedReport) // as ReopenRequest.Progress. For commands
}

// ParkedReport is what ChangeParked did, or would do.
type ParkedReport struct {
	Matched int64 // parked messages that the filter selects
	Changed int64 // of these: due now, or dropped; with DryRun 0
	Left    int64 // of these: in a worker's hands, locked, or changed meanwhile; parked meanwhile, if the list was gone through again
}

// CheckParked is Check for lists of what is parked. Stores call it.
func (f *Filter) CheckParked() error {
	switch {
	case f.State != 0 && f.State != Pending || f.Stuck:
		return &InvalidError{Field: "Filter.State", Bound: "zero or pending, and Filter.Stuck unset, of what is parked", Value: f.State.String()}
	case len(f.Kinds) > 0:
		return &InvalidError{Field: "Filter.Kinds", Bound: "unset: it is for dead letters", Value: fmt.Sprint(f.Kinds)}
	case f.Newest:
		return &InvalidError{Field: "Filter.Newest", Bound: "unset: it is for dead letters", Value: "set"}
	}
	return f.Check()
}

// KeepParked is Keep for a parked message.
func (f *Filter) KeepParked(ctx context.Context, m *ParkedMessage) (bool, error) {
	d := DeadLetter{ArchiveRecord: ArchiveRecord{Archive: m.Archive, At: m.At}, Status: m.Status}
	kept, err := f.Keep(ctx, &d)
	m.Archive = d.Archive
	return kept, err
}
