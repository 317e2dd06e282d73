package ledger

import (
	"bytes"
	"slices"
	"time"
)

// FailureKind says in which way an attempt or a message failed.
type FailureKind string

// The kinds of failure.
const (
	KindError     FailureKind = "error"     // the handler returned an error
	KindPanic     FailureKind = "panic"     // the handler panicked
	KindGoexit    FailureKind = "goexit"    // the handler called runtime.Goexit
	KindTimeout   FailureKind = "timeout"   // the handler's time limit passed
	KindTerminal  FailureKind = "terminal"  // the handler said that no retry helps
	KindExhausted FailureKind = "exhausted" // attempts or crashes at their limit
	KindUncertain FailureKind = "uncertain" // a parked effect whose outcome is not known
	KindMismatch  FailureKind = "mismatch"  // known id, other body
	KindInvalid   FailureKind = "invalid"   // the message cannot be keyed or read
	KindDeadline  FailureKind = "deadline"  // the broker is about to forget the message
	KindDropped   FailureKind = "dropped"   // an operator dropped a parked message
)

// AttemptError is one failed attempt of a message. Error texts are cut to 2 KiB and made valid UTF-8 when stored.
type AttemptError struct {
	Attempt int         `json:"attempt"`
	Kind    FailureKind `json:"kind"`
	Error   string      `json:"error"`
	At      time.Time   `json:"at"` // the worker's clock: for people, never compared
}

// Header is one header or attribute of a message. Order and duplicates are kept; a nil Value is not an empty one.
type Header struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
	Type  string `json:"type,omitempty"` // SQS: the attribute's data type; Kafka: empty
}

// Archive is one failed delivery, kept whole, or without its body where it is larger than the ledger archives
// ([Archive.LeftOut]). It outlives its message's row.
type Archive struct {
	Key         Key
	Fingerprint Fingerprint
	Delivery    []byte // as in Entry.Delivery
	Kind        FailureKind
	Errors      []AttemptError // oldest first
	Body        []byte         // nil is not empty
	Headers     []Header
	Source      string // queue ARN or cluster and topic
	Group       string // FIFO group, or the Kafka key as text, for people
	Attempts    int
	SentAt      time.Time // the broker's timestamp of the message
	// Sent says that a dead letter was published for this delivery; false: the archive alone has it.
	Sent bool
	// Keep is the archive's own retention, from now on.
	Keep time.Duration
}

// Size is what counts against Limits.Archive, in bytes: body, headers and group.
func (a *Archive) Size() int {
	n := len(a.Body) + len(a.Group)
	for _, h := range a.Headers {
		n += h.size()
	}
	return n
}

func (h *Header) size() int { return len(h.Name) + len(h.Value) + len(h.Type) }

// Record is all that a ledger knows of one message, for operators, tests and commands.
type Record struct {
	Key         [KeySize]byte
	Scope       string
	ID          []byte
	Fingerprint Fingerprint
	State       State
	Token       uint64
	Owner       string // empty: nobody's
	Attempts    int
	Crashes     int
	Generation  int
	Result      []byte
	Errors      []AttemptError
	Due         time.Time // zero: at once
	At          time.Time // first claim
	Expiry      time.Time
	Archived    []ArchiveRecord // failed deliveries, oldest first
	Steps       []Step          // as they were recorded, without results but with their sizes
	Parked      *Parked         // of a pending message that the ledger has whole; nil: it does not. Without its body with WithoutBodies
	Past        []Past          // earlier lives of the key, the latest first, at most MaxPast (see PastKeeper)
	// In is set when the message has no row: the ledger holds it together with its neighbours in the log. Of a succeeded
	// one the rest says little: At is when the first of them was claimed, and Token is zero.
	In *Neighbours
}

// Neighbours are the offsets From <= o < To of one log that the ledger holds as one: finished between Since and Until, or
// claimed together at Since, of which some may be finished (Until is zero).
type Neighbours struct {
	From, To     int64
	Since, Until time.Time
}

// ArchiveRecord is one stored failed delivery.
type ArchiveRecord struct {
	Archive
	Token      uint64    // the failing claim's, or that of a Renewal since; zero for a mismatch
	Generation int       // of the message when it failed
	At         time.Time // when it was archived
	Expiry     time.Time
	// Replayed is when an operator last said that it was sent again: a hint, nothing is decided by it. Zero: never.
	Replayed time.Time
	// Purged is when an operator emptied it ([Operator]); zero: it was not.
	Purged time.Time
	// BodyBytes is how long a body is that [WithoutBodies] left out; zero: none was.
	BodyBytes int
}

// Clone returns a deep copy, which shares no bytes with a.
func (a *Archive) Clone() Archive {
	out := *a
	if a.Key.Pos != nil {
		out.Key.Pos = new(*a.Key.Pos)
	}
	out.Key.ID, out.Delivery, out.Body = bytes.Clone(a.Key.ID), bytes.Clone(a.Delivery), bytes.Clone(a.Body)
	out.Errors, out.Headers = slices.Clone(a.Errors), slices.Clone(a.Headers)
	for i := range out.Headers {
		out.Headers[i].Value = bytes.Clone(out.Headers[i].Value)
	}
	return out
}
