package ledger

import (
	"context"
	"time"
)

// Bounds of parking.
const (
	// MaxPark is the longest time for which a message is parked at once.
	MaxPark = 30 * 24 * time.Hour
	// MaxDue is how many messages one call of [Parking].Due returns at most.
	MaxDue = 1000
)

// Parking is a ledger that can have messages in its care: a settlement of the kind [Park] puts the whole message beside its row, so
// that its broker need not keep it. What is parked says nothing of what becomes of the message: its row does, as ever. It is a copy
// that waits, as a broker's would, and goes when the message ends.
//
// Any number of processes and goroutines may call it.
type Parking interface {
	// Parks says whether it can: a table may be of a schema without. It may become true while the program runs.
	Parks() bool
	// Due returns messages of a scope that are parked and due, those first that have been due for longest, and hides what it
	// returns from further calls for DueRequest.Hide. They are nobody's yet: whoever has them claims them with Entry.Parked. So
	// an answer that is lost, or a caller that dies, costs a wait and nothing else. It also removes what is left of messages that
	// have ended. Errors: an [*InvalidError], one for which [Unusable] is true, or an outage.
	Due(ctx context.Context, r DueRequest) (DueReply, error)
	// ParkedIn counts what is parked of a scope.
	ParkedIn(ctx context.Context, scope string) (ParkedStats, error)
}

// DueRequest asks for what is due.
type DueRequest struct {
	Scope string
	Most  int           // 1 to MaxDue
	Bytes int64         // bodies and headers together, above 0; one message is returned in any case
	Hide  time.Duration // above 0, at most MaxWindow: about a lease
}

// DueReply is what Due answers.
type DueReply struct {
	Messages []Parked
	// Wait is how long until the next one is due that is not among Messages, at most MaxPark. Zero: it is due now. Negative: there
	// is none.
	Wait time.Duration
}

// Parked is a message in the ledger's care.
type Parked struct {
	// Archive is the message as it was parked, sealed if it was. Kind, Errors and Sent are not set.
	Archive
	Due time.Time // when it is to run, or, while somebody has it, when others may look for it
	At  time.Time // when it was parked last
	// BodyBytes is how long a body is that was left out, in lists; zero: none was.
	BodyBytes int
}

// ParkedStats is how much is parked of one scope.
type ParkedStats struct {
	Messages int64
	Bytes    int64         // [Archive.Weight] of all
	Overdue  time.Duration // for how long the one has been due that has been due for longest; zero: none is due
}

// Fits says whether another message may be parked where most messages and bytes are the limits; 0 is none.
func (s *ParkedStats) Fits(messages, bytes int64) bool {
	return (messages <= 0 || s.Messages < messages) && (bytes <= 0 || s.Bytes < bytes)
}
