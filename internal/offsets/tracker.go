package offsets

// keep is how many entries of an empty tracker's array are not given back, so that a partition that once was far ahead
// of its prefix does not hold the memory for ever.
const keep = 1024

// Tracker holds the delivered records of one assignment of one partition, in the order of their delivery, from the first
// unfinished one on. All operations take amortised constant time. It is not safe for concurrent use.
type Tracker struct {
	ring       []entry // length a power of two, or nil
	head, tail uint64  // sequence numbers: of the oldest entry, and of the next to come
	position   int64   // where to go on after a restart
	epoch      int32   // leader epoch of the record before position; -1: not known
	last       int64   // newest delivered offset
	lastEpoch  int32   // its leader epoch
}

type entry struct {
	offset int64
	epoch  int32
	done   bool
}

// New returns the tracker of a partition that begins at position, as committed or listed; epoch is the leader epoch that
// was committed with it, -1 if none was.
func New(position int64, epoch int32) *Tracker {
	return &Tracker{position: position, epoch: epoch, last: position - 1, lastEpoch: epoch}
}

// Add takes a delivered record in and returns its sequence number, by which it is finished. Offsets must grow: one that
// does not is refused (false) and changes nothing.
func (t *Tracker) Add(offset int64, epoch int32) (seq uint64, ok bool) {
	if offset <= t.last {
		return 0, false
	}
	if t.tail-t.head == uint64(len(t.ring)) {
		t.grow()
	}
	seq = t.tail
	*t.at(seq) = entry{offset: offset, epoch: epoch}
	t.tail++
	t.last, t.lastEpoch = offset, epoch
	return seq, true
}

// Finish marks a record as finished. A sequence number that was never given out, and one that was finished before, are
// refused (false) and change nothing: neither can move the position.
func (t *Tracker) Finish(seq uint64) bool {
	if seq < t.head || seq >= t.tail || t.at(seq).done {
		return false
	}
	t.at(seq).done = true
	for t.head < t.tail && t.at(t.head).done {
		e := t.at(t.head)
		t.position, t.epoch = e.offset+1, e.epoch
		t.head++
	}
	if t.head == t.tail && len(t.ring) > keep {
		t.ring = nil
	}
	return true
}

// Position returns what may be committed: one past the last record of the finished prefix and that record's leader
// epoch; where the tracker began as long as there is none.
func (t *Tracker) Position() (offset int64, epoch int32) { return t.position, t.epoch }

// Span returns how many records were delivered past the position, finished ones among them: what a restart would deliver
// again, and what the tracker's memory grows with.
func (t *Tracker) Span() int { return int(t.tail - t.head) }

// Oldest returns the offset of the first unfinished record, which holds the position, if there is one.
func (t *Tracker) Oldest() (offset int64, ok bool) {
	if t.head == t.tail {
		return 0, false
	}
	return t.at(t.head).offset, true
}

// Last returns the newest delivered offset and its leader epoch; one below the beginning if nothing was delivered.
func (t *Tracker) Last() (offset int64, epoch int32) { return t.last, t.lastEpoch }

func (t *Tracker) at(seq uint64) *entry { return &t.ring[seq&uint64(len(t.ring)-1)] }

func (t *Tracker) grow() {
	bigger := make([]entry, max(2*len(t.ring), 16))
	for seq := t.head; seq < t.tail; seq++ {
		bigger[seq&uint64(len(bigger)-1)] = *t.at(seq)
	}
	t.ring = bigger
}
