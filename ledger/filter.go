package ledger

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Filter selects messages or dead letters. The zero value selects all; what is set must hold together.
type Filter struct {
	// Scope is a scope's whole name; empty: all scopes but that of permits ([PermitScope]).
	Scope string
	// State is that of the message's row; zero: any. A dead letter whose row is gone has none.
	State State
	// Stuck selects pending messages that wait for nothing but a copy of them (Status.Free): what a killed replay leaves
	// behind, or a broker that forgot them. Permits ([PermitScope]) are none, nor is what is parked: the ledger has its copy.
	Stuck bool
	// Kinds of failure, any of them; empty: all. For dead letters.
	Kinds []FailureKind
	// Error is part of the text of one of the attempts' errors, upper and lower case being different.
	Error string
	// HeaderName and HeaderValue select what has such a header, whole; both or none. For dead letters.
	HeaderName, HeaderValue string
	// Group is the FIFO group or the Kafka key, whole. For dead letters.
	Group string
	// IDs are readable message ids, any of them; empty: all. At most [MaxFilterIDs].
	IDs [][]byte
	// Offsets selects Kafka records by what their id says; nil: all.
	Offsets *OffsetRange
	// From and To bound a time, From <= t < To; zero: unbounded. Which time it is, each method says.
	From, To time.Time
	// Newest lists the last ones first. For dead letters, and people who look for what fails now. Default: the oldest first.
	Newest bool
	// Limit ends a list after so many; zero: none.
	Limit int

	// Body asks for bodies and headers of dead letters.
	Body bool
	// Cipher opens sealed archives, for HeaderName and for Body. Without it a sealed one comes as it is (Archive.Sealed), and
	// no header of it matches. For archives that were written with a cipher.
	Cipher Cipher
	// Redact changes each dead letter before it is handed out: for lists that are printed or exported, never for a replay.
	// What is stored stays whole. It may be called with a nil Body. Default: none. For people with rules for personal data.
	Redact func(*Archive)

	ids map[string]bool // IDs, once Check has seen them
}

// MaxFilterIDs is how many ids one filter may name.
const MaxFilterIDs = 10_000

// OffsetRange is a part of one Kafka partition. The scope says of which topic.
type OffsetRange struct {
	Partition   int32
	First, Last int64 // both included
}

// contains reads an id of the form `topic-partition-offset`.
func (r *OffsetRange) contains(id []byte) bool {
	rest, offset, ok := cutNumber(string(id), 64)
	if !ok || offset < r.First || offset > r.Last {
		return false
	}
	_, partition, ok := cutNumber(rest, 32)
	return ok && partition == int64(r.Partition)
}

func cutNumber(s string, bits int) (rest string, n int64, ok bool) {
	i := strings.LastIndexByte(s, '-')
	if i < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(s[i+1:], 10, bits)
	return s[:i], n, err == nil
}

// Check refuses a filter that cannot be meant, with an [*InvalidError], and prepares it to be matched. Stores call it.
func (f *Filter) Check() error {
	switch {
	case len(f.Scope) > MaxScope:
		return invalidLen("Filter.Scope", 0, MaxScope, len(f.Scope))
	case f.State > Failed:
		return &InvalidError{Field: "Filter.State", Bound: "zero, pending, succeeded or failed", Value: fmt.Sprint(uint8(f.State))}
	case f.Stuck && f.State != 0 && f.State != Pending:
		return &InvalidError{Field: "Filter.State", Bound: "zero or pending with Filter.Stuck", Value: f.State.String()}
	case f.HeaderName == "" && f.HeaderValue != "":
		return &InvalidError{Field: "Filter.HeaderName", Bound: "set with Filter.HeaderValue", Value: "empty"}
	case len(f.IDs) > MaxFilterIDs:
		return &InvalidError{Field: "Filter.IDs", Bound: fmt.Sprintf("at most %d", MaxFilterIDs), Value: fmt.Sprint(len(f.IDs))}
	case !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To):
		return &InvalidError{Field: "Filter.To", Bound: "after Filter.From, " + f.From.Format(time.RFC3339), Value: f.To.Format(time.RFC3339)}
	case f.Limit < 0:
		return &InvalidError{Field: "Filter.Limit", Bound: "0 (none) or more", Value: fmt.Sprint(f.Limit)}
	}
	f.ids = nil // without IDs a filter that selects everything stays the zero value: a replay asks nothing of it
	if len(f.IDs) > 0 {
		f.ids = make(map[string]bool, len(f.IDs))
	}
	for _, id := range f.IDs {
		if len(id) == 0 || len(id) > MaxID {
			return invalidLen("Filter.IDs", 1, MaxID, len(id))
		}
		f.ids[string(id)] = true
	}
	if slices.Contains(f.Kinds, "") {
		return &InvalidError{Field: "Filter.Kinds", Bound: "kinds of failure", Value: "an empty one"}
	}
	if o := f.Offsets; o != nil && (o.Partition < 0 || o.First < 0 || o.Last < o.First) {
		return &InvalidError{Field: "Filter.Offsets", Bound: "partition >= 0, 0 <= first <= last",
			Value: fmt.Sprintf("partition %d, %d to %d", o.Partition, o.First, o.Last)}
	}
	return nil
}

// CheckMessages is Check for lists of messages, which have no kinds, headers, groups and bodies. Stores call it.
func (f *Filter) CheckMessages() error {
	for field, set := range map[string]bool{
		"Filter.Kinds": len(f.Kinds) > 0, "Filter.HeaderName": f.HeaderName != "", "Filter.Group": f.Group != "",
		"Filter.Body": f.Body, "Filter.Redact": f.Redact != nil, "Filter.Cipher": f.Cipher != nil,
		"Filter.Newest": f.Newest,
	} {
		if set {
			return &InvalidError{Field: field, Bound: "unset: it is for dead letters", Value: "set"}
		}
	}
	return f.Check()
}

// PermitScope is the scope of the permits of limits over all workers (consumer.Options.Limit). A permit that nobody holds is a pending message
// that waits for nothing, and not stuck.
const PermitScope = "ackledger:limit"

// Match says whether a message is selected, Limit aside, by a filter that was checked.
func (f *Filter) Match(m *Listed) bool {
	permit := m.Scope == PermitScope && (f.Stuck || f.Scope == "") // is no message
	return !permit && f.matchStatus(m.Status) && f.matchNames(m.Scope, m.ID) && within(m.At, f.From, f.To) && f.matchErrors(m.Errors)
}

// Keep says whether a dead letter is selected, Limit aside, and prepares it for the caller: opened if it is to be, without
// body and headers if these were not asked for, redacted. Stores call it once for each, with body and headers if
// [Filter.NeedsBody] says so.
func (f *Filter) Keep(ctx context.Context, d *DeadLetter) (bool, error) {
	if !f.matchStatus(d.Status) || !f.matchNames(d.Key.Scope, d.Key.ID) || !within(d.At, f.From, f.To) ||
		!f.matchErrors(d.Errors) || f.Group != "" && f.Group != d.Group ||
		len(f.Kinds) > 0 && !slices.Contains(f.Kinds, d.Kind) {
		return false, nil
	}
	if f.NeedsBody() && f.Cipher != nil {
		if err := d.Open(ctx, f.Cipher); err != nil {
			return false, err
		}
	}
	if f.HeaderName != "" && !slices.ContainsFunc(d.Headers, func(h Header) bool {
		return h.Name == f.HeaderName && string(h.Value) == f.HeaderValue
	}) {
		return false, nil
	}
	if !f.Body {
		d.Body, d.Headers = nil, nil
	}
	if f.Redact != nil {
		f.Redact(&d.Archive)
	}
	return true, nil
}

// NeedsBody says that bodies and headers must be read to apply the filter.
func (f *Filter) NeedsBody() bool { return f.Body || f.HeaderName != "" }

func (f *Filter) matchStatus(s Status) bool {
	return (f.State == 0 || f.State == s.State) && (!f.Stuck || s.Free())
}

func (f *Filter) matchNames(scope string, id []byte) bool {
	return (f.Scope == "" || f.Scope == scope) && (f.Offsets == nil || f.Offsets.contains(id)) &&
		(len(f.IDs) == 0 || f.ids[string(id)])
}

func (f *Filter) matchErrors(list []AttemptError) bool {
	return f.Error == "" || slices.ContainsFunc(list, func(e AttemptError) bool { return strings.Contains(e.Error, f.Error) })
}

func within(t, from, to time.Time) bool {
	return (from.IsZero() || !t.Before(from)) && (to.IsZero() || t.Before(to))
}
