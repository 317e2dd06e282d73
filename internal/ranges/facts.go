package ranges

import (
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/ackledger/ackledger/internal/maintenance"
	"github.com/ackledger/ackledger/ledger"
)

// Log names one log at one leader epoch: the first half of its records' stored keys. It is the hash of scope, cluster,
// topic UUID, partition and epoch.
type Log [8]byte

// Info is what a store keeps of a log for people, and to drop what the broker has dropped.
type Info struct {
	Log    Log
	Scope  string
	Name   string // ledger.Position.Log: of all epochs alike
	Epoch  int32
	Prefix string // a record's id is Prefix and its offset in decimal
}

// ID is the readable id of a record.
func (i *Info) ID(offset int64) []byte { return strconv.AppendInt([]byte(i.Prefix), offset, 10) }

// Segment is a span of terminal offsets, or, with Rows, one whose messages have rows of their own whether they are
// terminal or not.
type Segment struct {
	Span
	Rows     bool
	Messages int64 // the span's offsets less what was never delivered (compaction, control records)
	Since    time.Time
	Until    time.Time
	Expiry   time.Time
}

// Range is a claim of one owner: from the first offset of a batch to its last.
type Range struct {
	Span
	Token    uint64 // of its messages; no other range of the log has it
	Holder   ledger.Holder
	HeldFor  time.Duration // with Live: the rest of the owner's lease
	Locked   bool          // another transaction has it: what is seen may be old, and nothing may be changed
	Done     Set           // settled, never delivered, or in a row of its own
	Back     Set           // given back: nobody's, as if never claimed
	Messages int64         // delivered offsets, without those given back
	At       time.Time
	Window   time.Duration
}

// Pending is the number of messages that are left to do.
func (r *Range) Pending() (n int64) {
	settled := r.settled()
	return r.Len() - settled.Count()
}

// Open yields the offsets that are left to do, in ascending order.
func (r *Range) Open() iter.Seq[int64] {
	return func(yield func(int64) bool) {
		settled := r.settled()
		for span := range settled.Without(r.Span) {
			for o := span.From; o < span.To; o++ {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// Tally counts what is left to do of a range of some age, and names the first messages of one that is past its expiry. It
// returns how many are left.
func (r *Range) Tally(t *maintenance.Tally, in *Info, age time.Duration) (pending int64) {
	abandoned, listed := int64(0), 0
	if pending = r.Pending(); age > r.Window {
		abandoned = pending
		for offset := range r.Open() {
			if listed++; listed > ledger.MaxAbandoned {
				break
			}
			t.Abandon(ledger.Abandoned{Scope: in.Scope, ID: in.ID(offset), At: r.At.UTC(), Expiry: r.At.Add(r.Window).UTC()})
		}
	}
	if pending > 0 {
		t.AddPending(in.Scope, maintenance.AgeBucket(age), pending, abandoned, age)
	}
	return pending
}

func (r *Range) settled() Set {
	all := r.Done.Clone()
	all.AddAll(r.Back)
	return all
}

// over says that nothing of the range is left to do.
func (r *Range) over() bool {
	settled := r.settled()
	return settled.Covers(r.Span)
}

// Facts is what one transaction sees of a log, after it has locked it.
type Facts struct {
	Now     time.Time // the ledger's clock
	Locked  bool      // another transaction has the log: nothing is known
	Version uint64    // grows with whatever puts something at new offsets
	Token   uint64    // the highest that was given to a range
	Top     int64     // nothing at all lies at or above this offset
	// Room is a span below Top in which nothing at all lies either, as far as it is known: for Query.Room that from the end of
	// what was asked about to what comes next.
	Room Span
	// Segments are those that touch what was asked about, or a range that meets it; in ascending order.
	Segments []Segment
	// Ranges are those that meet what was asked about.
	Ranges []Range
	// HasRow says whether an offset that was asked about has a row of its own.
	HasRow func(offset int64) bool
}

// Row is a message that leaves its range for a row of its own: pending, with no attempt counted.
type Row struct {
	Offset int64
	Token  uint64 // the range's; its owner is the row's, too
	// Nobody says that the row was in no range that is there, is nobody's, and is not covered by one.
	Nobody      bool
	Fingerprint ledger.Fingerprint
	At          time.Time
	Expiry      time.Time
}

// Change is what a plan makes of a log.
type Change struct {
	Version uint64  // the new one; equal to the facts' if nothing was put at new offsets
	Token   uint64  // the new highest
	Top     int64   // the new one
	Room    Span    // what is left of the facts': for the owner, not for the store
	Open    []Range // new ranges of this owner
	Alter   []Range // those with new Done and Back
	Close   []uint64
	Rows    []Row
	// Drop are the first offsets of segments that go, then Put are segments that come.
	Drop []int64
	Put  []Segment
	// Bound is what the plan found or made a matter of rows: for the owner, not for the store.
	Bound []Span
}

// put merges new segments into those that are there: neighbours of one kind become one.
func (c *Change) put(there []Segment, add []Segment) {
	all := slices.Clone(there)
	gone := map[int64]bool{}
	old := len(all)
	for _, s := range add {
		if s.Len() == 0 {
			continue
		}
		for i := 0; i < len(all); {
			t := all[i]
			if t.Rows != s.Rows || !t.Touches(s.Span) {
				i++
				continue
			}
			s = join(s, t)
			if i < old {
				gone[t.From] = true
				old--
			}
			all = append(all[:i], all[i+1:]...)
		}
		all = append(all, s)
	}
	for _, s := range there {
		if gone[s.From] {
			c.Drop = append(c.Drop, s.From)
		}
	}
	c.Put = append(c.Put, all[old:]...)
}

// join is one segment of two that touch. Messages that both count are counted once, as far as spans can tell.
func join(a, b Segment) Segment {
	both := Span{max(a.From, b.From), min(a.To, b.To)}.Len()
	a.Span = Span{min(a.From, b.From), max(a.To, b.To)}
	a.Messages = max(a.Messages+b.Messages-both, 0)
	if b.Since.Before(a.Since) {
		a.Since = b.Since
	}
	if b.Until.After(a.Until) {
		a.Until = b.Until
	}
	if b.Expiry.After(a.Expiry) {
		a.Expiry = b.Expiry
	}
	return a
}

// Find fills in what ranges know of a message that has no row; false: nothing.
func Find(f *Facts, offset int64, rec *ledger.Record) bool {
	for _, s := range f.Segments {
		if s.Has(offset) && !s.Rows {
			rec.State, rec.At, rec.Expiry = ledger.Succeeded, s.Since, s.Expiry
			rec.In = &ledger.Neighbours{From: s.From, To: s.To, Since: s.Since, Until: s.Until}
			return true
		}
	}
	for i := range f.Ranges {
		r := &f.Ranges[i]
		if !r.Has(offset) || r.Back.Has(offset) {
			continue
		}
		rec.State, rec.Token, rec.At, rec.Expiry = ledger.Pending, r.Token, r.At, r.At.Add(r.Window)
		if r.Done.Has(offset) {
			rec.State, rec.Token = ledger.Succeeded, 0
		}
		rec.In = &ledger.Neighbours{From: r.From, To: r.To, Since: r.At}
		return true
	}
	return false
}
