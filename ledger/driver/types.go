package driver

import (
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/ranges"
	"github.com/ackledger/ackledger/ledger"
)

// Key is the stored key of a message: see [ledger.Key.Sum].
type Key = [ledger.KeySize]byte

// What stores hold of logs. A log's records have keys that begin with its LogID and end in their offsets, big-endian.
type (
	// LogID names one log at one leader epoch.
	LogID = ranges.Log
	// Info is what is told of a log when it is met first. It does not change.
	Info = ranges.Info
	// Span is offsets From <= o < To.
	Span = ranges.Span
	// Set is a set of offsets. [DecodeSet] reads what its Encode wrote.
	Set = ranges.Set
	// Segment is offsets that are finished, or, with Rows, bound to rows. Segments of one log do not overlap.
	Segment = ranges.Segment
	// Start is where a log begins, as workers have found it.
	Start = ranges.Start
)

// DecodeSet reads a set that was written by its Encode with the same base.
func DecodeSet(b []byte, base int64) (Set, error) { return ranges.DecodeSet(b, base) }

// SplitKey reads a record's key: its log and its offset.
func SplitKey(key Key) (LogID, int64) { return ranges.SplitSum(key) }

// JoinKey is the key of a record.
func JoinKey(id LogID, offset int64) Key { return ranges.JoinSum(id, offset) }

// OwnerID names an owner. It is above 0, and never given to a second owner of the ledger.
type OwnerID int64

// Nobody is the owner of a message that nobody has.
const Nobody OwnerID = 0

// Fate says whether an owner lives. It never reverts.
type Fate uint8

// The fates. The zero value is none of them.
const (
	Live Fate = iota + 1
	Left      // it ended its life on purpose
	Dead      // a peer declared it dead
)

// Owner is an owner as a transaction sees it.
type Owner struct {
	Fate  Fate
	Lease time.Time // when its lease ends
}

// Message is the row of a message.
type Message struct {
	Key         Key
	Scope       string
	ID          []byte
	Fingerprint ledger.Fingerprint // zero: not known yet
	State       ledger.State
	Token       uint64
	Owner       OwnerID // of a pending one; Nobody: nobody's
	Attempts    int
	Crashes     int
	Generation  int
	Due         time.Time // zero: at once
	At          time.Time // first claim
	Expiry      time.Time
	Result      []byte // nil is not empty
	Errors      []ledger.AttemptError
	// Failed is the delivery that a failed message failed of last.
	Failed []byte
	// Logged says, of one that is inserted, that its key is a record's of a log ([SplitKey]). It is not read.
	Logged bool
	// Covered says that a range or segment may speak for the message when its row is gone.
	Covered bool
	// Archived says that the delivery that was asked about is in the archive under this key, and not past its expiry. It is read, never written.
	Archived bool
}

// Log is the row of a log.
type Log struct {
	Info
	Version uint64
	Token   uint64
	Top     int64
	Start   Start
}

// Range is a range of a log that is still open.
type Range struct {
	Span
	Token    uint64 // its key, within the log
	Owner    OwnerID
	Done     Set
	Back     Set
	Messages int64
	At       time.Time
	Window   time.Duration
}

// Wanted says whether a range meets span, or has one of the tokens.
func Wanted(r Span, token uint64, span Span, tokens []uint64) bool {
	return r.Meets(span) || slices.Contains(tokens, token)
}

// Mark is a place in a list: behind the row that it was given for. Only the store that gave it knows what is in it. Empty:
// the beginning.
type Mark string

// ArchiveChange is what changes of an archived delivery. The zero value changes nothing.
type ArchiveChange struct {
	Delivery []byte    // its new name; nil: as it is
	Token    uint64    // its new token; 0: as it is
	Replayed time.Time // zero: as it is
	// Purged, unless it is zero, empties the delivery for good: body, headers, errors and group go. It expires at Expiry then,
	// if not before. What was purged stays as it is.
	Purged, Expiry time.Time
}

// DeadLetter is one archived delivery of a list.
type DeadLetter struct {
	ledger.ArchiveRecord // without body and headers
	Mark                 Mark
	Size                 int  // bytes of body and headers
	Superseded           bool // its token is not 0, and another delivery of the message has a higher one
}

// Swept is what a page of the sweep saw of the messages.
type Swept struct {
	Last   Mark // of the last row
	Looked int  // rows that were looked at; 0: none is left
	// Rows are those of them that are pending, covered or past their expiry. A store may add any of the others. What Errors,
	// Result and Failed hold need not be read, if Failed is not nil where there is any of them.
	Rows []Message
	// Rest counts those that are not among Rows.
	Rest []Count
}

// Count is how many messages of a scope are in a state.
type Count struct {
	Scope string
	State ledger.State
	N     int64
}

// Turn is the right to sweep, which one process has at a time, and what the last whole pass has left.
type Turn struct {
	Holder string    // drawn for each pass; empty: nobody
	Lease  time.Time // until then
	Due    time.Time // the next pass need not begin before
	Next   Mark      // where the next pass begins its round
	Pass   []byte    // of the last whole pass: as the driver has written it; nil: there was none, and in PutTurn: as it is
}

// Grace is how long a row stays past its expiry; window is from its first claim to its expiry. What is finished goes at
// once, a pending one only after keep and its own window again.
func Grace(state ledger.State, window, keep time.Duration) time.Duration {
	if state == ledger.Pending {
		return max(keep, window)
	}
	return 0
}
