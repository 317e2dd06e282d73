package offsets

import (
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
)

// Table holds a member's assignments of the moment, in the order of their partitions. It is not safe for concurrent use.
type Table struct {
	span   int
	most   int // records in hand
	now    []*Assignment
	held   int // in hand, of assignments that were let go of too
	weight flow.Weight
	stuck  int // how many assignments are stuck, at least

	crowdedAt time.Time // since when polls have waited for one that crowds; zero: they do not
}

// NewTable returns a table whose partitions pause when span records are delivered past their position. A member has as many
// records and bytes in hand as maxHeld and maxBytes say; the table does not hold it to them.
func NewTable(span, maxHeld int, maxBytes int64) *Table {
	return &Table{span: span, most: maxHeld, weight: flow.Weight{Limit: maxBytes}}
}

// Install begins an assignment. One that was there is let go of and returned, for its records to be dropped.
func (t *Table) Install(a *Assignment) (old *Assignment) {
	a.tracker, a.high, a.weight.Limit = New(a.Start, a.Epoch), -1, t.weight.Limit
	at, found := t.find(a.TopicPartition)
	if !found {
		t.now = slices.Insert(t.now, at, a)
		return nil
	}
	old = t.now[at]
	old.close()
	old.gone = true
	t.now[at] = a
	return old
}

func (t *Table) find(p TopicPartition) (at int, found bool) {
	return slices.BinarySearchFunc(t.now, p, func(a *Assignment, p TopicPartition) int { return a.Compare(p) })
}

// Get returns the assignment of a partition, closed or not; nil: there is none.
func (t *Table) Get(p TopicPartition) *Assignment {
	if at, found := t.find(p); found {
		return t.now[at]
	}
	return nil
}

// All returns the assignments, in the order of their partitions. It is the table's own slice.
func (t *Table) All() []*Assignment { return t.now }

// Record is a delivered record.
type Record struct {
	Offset  int64
	Epoch   int32 // leader epoch
	Size    int64 // bytes in hand
	Control bool  // of a transaction: there is nothing to handle
}

// Before is the place right before a record whose epoch is new: nothing of that epoch has been read. A commit of it says so. With no
// epoch, the next truncation would go unnoticed by whoever begins there.
func (r *Record) Before() (offset int64, epoch int32) { return r.Offset, r.Epoch - 1 }

// Arrival says what a delivered record is to its assignment.
type Arrival uint8

// The arrivals.
const (
	Passed  Arrival = iota // it is not taken in: it was delivered before, is a control record, or its assignment is closed
	Taken                  // it is new, and in hand from now on
	Rewound                // its offset does not grow although its epoch does: the log was truncated and written anew
)

// Take takes a delivered record in. With the sequence number it is finished.
func (t *Table) Take(now time.Time, a *Assignment, r Record) (seq uint64, is Arrival) {
	if a.closed {
		return 0, Passed
	}
	seq, ok := a.tracker.Add(r.Offset, r.Epoch)
	if !ok {
		if _, epoch := a.tracker.Last(); r.Epoch > epoch {
			return 0, Rewound
		}
		return 0, Passed
	}
	if r.Control { // finished at once, so that the position reaches the end
		a.tracker.Finish(seq)
		return 0, Passed
	}
	if a.held == 0 {
		a.moved = now
	}
	a.held++
	t.held++
	a.weight.Add(r.Size)
	t.weight.Add(r.Size)
	return seq, Taken
}

// Pauses says whether the span's limit is reached now: the partition is not to be read until it resumes.
func (t *Table) Pauses(now time.Time, a *Assignment) bool {
	if a.closed || a.tracker.Span() < t.span || !a.pausedAt.IsZero() {
		return false
	}
	a.pausedAt = now
	return true
}

// Pinned says whether so much was delivered past a partition's position that the span is half used up.
func (t *Table) Pinned(a *Assignment) bool { return a.tracker.Span() > t.span/2 }

// Resumes says whether a partition that the span's limit held is to be read again.
func (t *Table) Resumes(a *Assignment) bool {
	if a.pausedAt.IsZero() || a.closed || t.Pinned(a) {
		return false
	}
	a.pausedAt = time.Time{}
	return true
}

// Finish notes that a record is in hand no more. With ack it is finished: the ledger is terminal for it.
func (t *Table) Finish(now time.Time, a *Assignment, seq uint64, size int64, ack bool) {
	if ack && !a.gone {
		a.tracker.Finish(seq)
	}
	a.weight.Remove(size)
	t.weight.Remove(size)
	a.held--
	t.held--
	a.moved = now
}

// Held is what is in hand of all assignments, also of those that were let go of.
func (t *Table) Held() (records int, bytes int64) { return t.held, t.weight.Total() }

// Close stops the assignments that match from taking anything in, and returns those that were open.
func (t *Table) Close(match func(*Assignment) bool) (closed []*Assignment) {
	for _, a := range t.now {
		if match(a) && a.close() {
			closed = append(closed, a)
		}
	}
	return closed
}

// Discard lets go of a closed assignment.
func (t *Table) Discard(a *Assignment) {
	a.gone = true
	if at, found := t.find(a.TopicPartition); found && t.now[at] == a {
		t.now = slices.Delete(t.now, at, at+1)
	}
}

// Due returns what is to be committed of the open assignments. Of a closed one it is whoever closed it who commits.
func (t *Table) Due(now time.Time) (out []Commit) {
	for _, a := range t.now {
		if c, due := a.Due(now); due && !a.closed {
			out = append(out, c)
		}
	}
	return out
}
