package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
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
// ([Archive.Excerpt]). It outlives its message's row.
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

const maxErrorText = 2 << 10

// AppendError appends one attempt's failure to a row's list, and keeps the encoded list within limit bytes: the text is
// cut to 2 KiB, and of a list that is too long the first entry and the latest ones stay.
func AppendError(list []AttemptError, e AttemptError, limit int) []AttemptError {
	e.Error = cutText(e.Error, maxErrorText)
	out := slices.Concat(list, []AttemptError{e})
	for len(out) > 1 && len(EncodeErrors(out)) > limit {
		at := min(1, len(out)-2) // of two the latest stays
		out = slices.Delete(out, at, at+1)
	}
	return out
}

// EncodeErrors gives the stored form of a list of errors: JSON; nil for an empty list.
func EncodeErrors(list []AttemptError) []byte {
	if len(list) == 0 {
		return nil
	}
	b, err := json.Marshal(list)
	if err != nil { // a time outside years 0-9999: the list is for people, so it is kept without the times
		plain := make([]AttemptError, len(list))
		for i, e := range list {
			e.At = time.Time{}
			plain[i] = e
		}
		b, _ = json.Marshal(plain)
	}
	return b
}

// DecodeErrors reads what EncodeErrors wrote.
func DecodeErrors(b []byte) ([]AttemptError, error) {
	if len(b) == 0 {
		return nil, nil
	}
	var list []AttemptError
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("ledger: the stored list of errors cannot be read: %w", err)
	}
	return list, nil
}

// storedHeader is one header as JSON. A name or type that is no UTF-8 goes as bytes, since JSON would change it.
type storedHeader struct {
	Name    string `json:"name,omitempty"`
	RawName []byte `json:"raw_name,omitempty"`
	Value   []byte `json:"value"`
	Type    string `json:"type,omitempty"`
	RawType []byte `json:"raw_type,omitempty"`
}

// EncodeHeaders gives the stored form of headers: JSON, which keeps order, duplicates and every byte; nil stays nil. Stores
// call it.
func EncodeHeaders(headers []Header) []byte {
	if headers == nil {
		return nil
	}
	stored := make([]storedHeader, len(headers))
	for i, h := range headers {
		s := &stored[i]
		s.Value = h.Value
		if s.Name = h.Name; !utf8.ValidString(h.Name) {
			s.Name, s.RawName = "", []byte(h.Name)
		}
		if s.Type = h.Type; !utf8.ValidString(h.Type) {
			s.Type, s.RawType = "", []byte(h.Type)
		}
	}
	b, _ := json.Marshal(stored) // text and bytes have no way to fail
	return b
}

// DecodeHeaders reads what EncodeHeaders wrote.
func DecodeHeaders(b []byte) ([]Header, error) {
	if b == nil {
		return nil, nil
	}
	var stored []storedHeader
	if err := json.Unmarshal(b, &stored); err != nil {
		return nil, fmt.Errorf("ledger: the stored headers cannot be read: %w", err)
	}
	headers := make([]Header, len(stored))
	for i, s := range stored {
		headers[i] = Header{Name: s.Name + string(s.RawName), Value: s.Value, Type: s.Type + string(s.RawType)}
	}
	return headers, nil
}

// CutResult bounds a handler's result: one longer than limit is cut and ends in a marker that says so. Nil stays nil
// and empty stays empty.
func CutResult(result []byte, limit int) []byte {
	if len(result) <= limit {
		return result
	}
	marker := fmt.Sprintf("…[cut from %d bytes]", len(result))
	keep := max(limit-len(marker), 0)
	out := make([]byte, 0, keep+len(marker))
	out = append(out, result[:keep]...)
	return append(out, marker...)
}

func cutText(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
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
