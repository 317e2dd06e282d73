package locks

import "time"

// stage is where a record stands on its way through the worker's hands.
type stage uint8

const (
	buffered  stage = iota // the client has fetched it, and no poll has brought it
	held                   // in the engine's
	deciding               // the ledger is terminal for it: to be accepted as soon as its renewal has ended
	returning              // the engine let go of it: to be released when no fetch of ours can meet it
	gone
)

// Hold is one record in hand, from its fetch until it is accepted or let go of. Whoever makes it fills in the exported fields, and
// does not touch them after [Table.Buffer] or [Table.Receive].
type Hold struct {
	ID     string        // of the record: the same at each delivery
	Place  string        // its partition: requests succeed or fail for all records of one
	Handle any           // by which the newest delivery is accepted
	Count  int32         // how often the broker has delivered it, this time included
	Until  time.Duration // when its lock ends, at the earliest
	Span   time.Duration // for how long the broker locks a record, and a renewal does

	prev, next *Hold // in the order of fetches
	stage      stage
	listed     bool
	lapsed     bool          // its lock is over, as far as we know: nothing new begins with it
	dropped    bool          // the engine was told to let go of it
	busy       bool          // a renewal is under way
	moved      bool          // it was delivered again while a renewal of the delivery before was under way
	most       int           // its last renewal was not done: so many of its partition, it included, are renewed together; 0: all
	retryAt    time.Duration // no renewal before
}

// margin is how long before its end a lock counts as over.
func (h *Hold) margin() time.Duration { return min(h.Span/10, 5*time.Second) }

// fresh says whether the lock holds beyond doubt.
func (h *Hold) fresh(now time.Duration) bool { return !h.lapsed && now < h.Until-h.margin() }

// Table holds all records in hand. It is not safe for concurrent use.
//
// Of each record at most one request is under way (busy): a renewal has ended before the record is accepted. Else the broker could
// get two decisions about it, and it refuses the second one together with all others of the partition.
type Table struct {
	limit int32 // deliveries, after which the broker gives a record up; 0: none

	holds     map[string]*Hold // in the engine's hands, or on their way out
	oldest    *Hold
	newest    *Hold
	inEngine  int
	drops     []*Hold // what the engine is to let go of, at the next plan
	draining  bool
	pollsOver bool
}

// New returns a table for a group in which the broker delivers a record at most limit times; 0: as often as it takes.
func New(limit int32) *Table { return &Table{limit: limit, holds: map[string]*Hold{}} }

// SetLimit says that the broker's limit is another one now.
func (t *Table) SetLimit(limit int32) { t.limit = limit }

// reserved is how many of a record's deliveries are kept for its archive: no handler runs in them. It is more than one because a
// process may crash before the ledger has answered.
const reserved = 2

// Reserved says of a record that the ledger must decide it without its handler: when its lock ends, or it is released, the broker may
// deliver it no more, and it would be lost.
func (t *Table) Reserved(h *Hold) bool { return t.limit > 0 && h.Count > t.limit-reserved }

// Last says of a record that the broker delivers it no more.
func (t *Table) Last(h *Hold) bool { return t.limit > 0 && h.Count >= t.limit }

// link makes a record the newest.
func (t *Table) link(h *Hold) {
	h.listed = true
	if h.prev = t.newest; h.prev != nil {
		h.prev.next = h
	} else {
		t.oldest = h
	}
	t.newest = h
}

func (t *Table) unlink(h *Hold) {
	if !h.listed {
		return
	}
	if h.prev != nil {
		h.prev.next = h.next
	} else {
		t.oldest = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	} else {
		t.newest = h.prev
	}
	h.prev, h.next, h.listed = nil, nil, false
}

// leave moves a record out of the engine's hands.
func (t *Table) leave(h *Hold, to stage) {
	if h.stage == held {
		t.inEngine--
	}
	if h.stage = to; to == gone {
		t.remove(h)
	}
}

func (t *Table) remove(h *Hold) {
	h.stage = gone
	if t.holds[h.ID] == h {
		delete(t.holds, h.ID)
	}
	t.unlink(h)
}
