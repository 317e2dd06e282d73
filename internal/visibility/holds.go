package visibility

import "time"

// MaxBatch is how many entries SQS takes in one request.
const MaxBatch = 10

// stage is where a message stands on its way out of the worker's hands.
type stage uint8

const (
	held      stage = iota // in the engine's
	deleting               // the ledger is terminal for it: to be deleted
	returning              // the engine let go of it: its visibility is to be ended or set
	gone
)

// Hold is one message in hand, from its receive until its delete is answered or it is let go of. Whoever makes it fills in the
// exported fields, and does not touch them after [Table.Receive].
type Hold struct {
	ID     string // MessageId
	Group  string // message group of a FIFO queue; empty on a standard queue
	Handle string // the newest receipt handle

	prev, next *Hold // in the order of receives
	stage      stage
	lapsed     bool          // its visibility is over, as far as we know: nothing new begins with the handle
	dropped    bool          // the engine was told to let go of it: it has lapsed, or a message of its group has
	busy       bool          // a request that names it is under way, or about to be
	queued     bool          // in the delete queue
	until      time.Duration // when its visibility ends at the earliest
	last       time.Duration // when SQS extends no more
	retryAt    time.Duration // no change before
	again      time.Duration // while returning: how long it is to stay hidden
	tries      int           // failed deletes
	refusals   int           // of those, refused by themselves
}

// Table holds all messages in hand by MessageId. It is not safe for concurrent use.
//
// Of each message at most one request is under way (busy): so an extension has ended before the delete is sent, and no batch
// names a message twice.
type Table struct {
	visibility time.Duration
	limit      time.Duration // of all extensions of one receive together
	margin     time.Duration // before the visibility's end, in which a handle counts as stale
	fifo       bool

	holds       map[string]*Hold
	oldest      *Hold
	newest      *Hold
	groups      map[string]int // held messages of each message group
	inEngine    int
	deletes     []*Hold
	pending     int  // in stage deleting
	draining    bool // what comes back is to be handed on
	pollsOver   bool // none of our polls is open any more
	handingBack bool // a request that hands back messages of a FIFO queue is under way
}

// New returns the table of a queue. visibility is the visibility timeout that polls ask for; limit is how long a message can be
// hidden in all after one receive.
func New(visibility, limit time.Duration, fifo bool) *Table {
	return &Table{
		visibility: visibility, limit: limit, margin: min(visibility/10, 5*time.Second), fifo: fifo,
		holds: map[string]*Hold{}, groups: map[string]int{},
	}
}

// add takes a message in. It takes the place of an older copy.
func (t *Table) add(h *Hold) {
	if old := t.holds[h.ID]; old != nil {
		t.unlink(old)
	}
	t.holds[h.ID] = h
	t.link(h)
	t.inEngine++
	if t.fifo {
		t.groups[h.Group]++
	}
}

// link makes a message the newest.
func (t *Table) link(h *Hold) {
	if h.prev = t.newest; h.prev != nil {
		h.prev.next = h
	} else {
		t.oldest = h
	}
	t.newest = h
}

func (t *Table) unlink(h *Hold) {
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
	h.prev, h.next = nil, nil
}

// leaveEngine moves a message out of the engine's hands.
func (t *Table) leaveEngine(h *Hold, to stage) {
	h.stage = to
	t.inEngine--
	if t.fifo {
		if t.groups[h.Group]--; t.groups[h.Group] == 0 {
			delete(t.groups, h.Group)
		}
	}
	if to == gone {
		t.remove(h)
	}
}

func (t *Table) remove(h *Hold) {
	if h.stage == deleting {
		t.pending--
	}
	h.stage = gone
	if t.holds[h.ID] == h {
		delete(t.holds, h.ID)
		t.unlink(h)
	}
}

// fresh says whether the handle is good beyond doubt.
func (t *Table) fresh(h *Hold, now time.Duration) bool { return !h.lapsed && now < h.until-t.margin }

// lapse notes that a message's visibility is over. It returns whether the engine has to be told.
func (t *Table) lapse(h *Hold) bool {
	h.lapsed = true
	if h.stage == returning && !h.busy {
		t.remove(h)
	}
	return h.stage == held
}

// drop notes that the engine is to let go of what has lapsed, and, of a FIFO queue, of all that is in hand of its groups. It
// returns what that is. It belongs to the step in which the message lapsed: a copy that came in between would revive it, and be
// let go of as if it had lapsed.
func (t *Table) drop(lapsed []*Hold) []*Hold {
	if len(lapsed) == 0 {
		return nil
	}
	groups := map[string]bool{}
	for _, h := range lapsed {
		h.dropped, groups[h.Group] = true, true
	}
	if !t.fifo {
		return lapsed
	}
	for h := t.oldest; h != nil; h = h.next {
		if h.stage == held && groups[h.Group] && !h.dropped {
			h.dropped = true
			lapsed = append(lapsed, h)
		}
	}
	return lapsed
}
