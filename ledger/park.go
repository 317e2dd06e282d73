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
	// MaxParkLane is the length of a lane's name, in bytes.
	MaxParkLane = 255
	// MaxInLane is up to how many messages of a lane [Parking].ParkedLane counts.
	MaxInLane = 101
	// PlaceLast is the place in a lane behind all that are parked there.
	PlaceLast = -1
	// MaxParkedLanes is how many lanes one call of [Parking].ParkedLanes returns at most.
	MaxParkedLanes = 10_000
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
	// ParkedLane says what is parked of a lane: see [ParkLane]. It reads an index. A ledger of which Parks is false answers that nothing
	// is, or has found out that it parks. Errors are as of Due.
	ParkedLane(ctx context.Context, scope string, lane []byte) (LaneStats, error)
	// ParkedLanes returns the lanes of which messages are parked whose names begin with prefix, by their names: at most as many as
	// most, which is 1 to MaxParkedLanes; more says that there are others. Otherwise it is as ParkedLane.
	ParkedLanes(ctx context.Context, scope string, prefix []byte, most int) (lanes [][]byte, more bool, err error)
}

// ParkLane is where a message is parked that is to run after others: in a lane, which is a sequence of its scope, at a place. Of a lane
// only the head is ever due, which is the message with the least place of those that are parked; whatever ends the head, the next one is
// due at once. The places alone say what comes before what, not when it was parked. So who parks whatever comes behind what is parked
// has its order kept.
type ParkLane struct {
	Name []byte // 1 to MaxParkLane bytes
	// Place is from 0 on, and no two messages of a lane have the same. Or it is PlaceLast, for who parks one after the other: then the
	// ledger gives out places.
	Place int64
}

// LaneStats is what is parked of a lane.
type LaneStats struct {
	Messages int // counted up to MaxInLane
	// Wait is how long until the head may run, whoever has it in hand. Zero: now, or it runs, or there is none.
	Wait time.Duration
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
	Due time.Time // when it is to run, or, while somebody has it, when others may look for it; see Behind
	At  time.Time // when it was parked last
	// BodyBytes is how long a body is that was left out, in lists; zero: none was.
	BodyBytes int
	// Lane is in which lane it waits; nil: in none.
	Lane *ParkLane
}

// Behind says that it waits behind others of its lane. Due is a day of the year 9999 then.
func (p *Parked) Behind() bool { return p.Lane != nil && p.Due.UTC().Year() == 9999 }

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
