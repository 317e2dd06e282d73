package locks

import "time"

// Arrival says what a record that a poll has brought is to the worker.
type Arrival uint8

// What a record can be.
const (
	ArrivedNew   Arrival = iota // to be handled
	ArrivedAgain                // in hand already: its handle is kept, and nothing else of it
	ArrivedLate                 // its lock may be over: nothing is done with it, and the broker delivers it again
)

// Buffer takes in a record that the client has fetched, and that no poll has brought yet. Its lock runs already.
func (t *Table) Buffer(h *Hold) { t.link(h) }

// Receive takes in a record that a poll has brought, whether it was told of before or not. One that is in hand already has come
// again because its lock was over: the engine goes on with what it has, and the newest delivery is the one to be accepted. At the first
// of its reserved deliveries it is new, and the engine is to let go of what it has.
func (t *Table) Receive(h *Hold, now time.Duration) Arrival {
	t.unlink(h)
	if !h.fresh(now) && !t.Last(h) {
		h.stage = gone
		return ArrivedLate
	}
	known := t.holds[h.ID]
	if known != nil && !known.dropped && known.stage == held && t.Reserved(h) && !t.Reserved(known) {
		known.dropped, t.drops = true, append(t.drops, known) // what is to be retried, or waits, is decided now
	}
	if known != nil && (known.dropped || known.stage == returning) {
		known.lapsed = true // the engine lets go of the old one; this one is new to it
		if t.unlink(known); known.stage == returning {
			known.stage = gone
		}
		known = nil
	}
	if known == nil {
		h.stage, h.lapsed = held, false
		t.holds[h.ID] = h
		t.inEngine++
		t.link(h)
		return ArrivedNew
	}
	known.moved = known.busy
	known.Handle, known.Count, known.Until, known.Span = h.Handle, h.Count, h.Until, h.Span
	known.lapsed, known.most, known.retryAt = false, 0, 0
	h.stage = gone
	return ArrivedAgain
}

// Start is asked right before a handler starts: never on a lock that may be over, except of what comes no more.
func (t *Table) Start(h *Hold, now time.Duration) bool {
	if h.dropped || !h.fresh(now) && !t.Last(h) {
		h.lapsed, h.dropped = true, true
		return false
	}
	return true
}

// Dropped says whether the engine was told to let go of a record. One that it did not have then it must be told of again.
func (t *Table) Dropped(h *Hold) bool { return h.dropped }

// Ack is told that the ledger is terminal for a record, and says whether to accept it now. False: its lock is over, and it is
// accepted when it comes again; or its renewal is under way, whose end tells.
func (t *Table) Ack(h *Hold) (accept bool) {
	switch {
	case t.holds[h.ID] != h || h.lapsed: // a newer delivery is another item of the engine's, or will be
		t.leave(h, gone)
	case h.busy:
		t.leave(h, deciding)
	default:
		t.leave(h, gone)
		return true
	}
	return false
}

// LetGo is told that the engine has let go of a record that the ledger is not terminal for. It is released when the worker stops;
// else its lock was over. One that comes no more is kept, for [Table.Lost].
func (t *Table) LetGo(h *Hold) {
	if t.holds[h.ID] == h && (t.Last(h) || t.draining && !h.lapsed) {
		t.leave(h, returning)
		return
	}
	t.leave(h, gone)
}

// Drain says that the worker stops: from now on records are released.
func (t *Table) Drain() { t.draining = true }

// PollsOver says that no fetch of ours is open any more: what is released comes to somebody else.
func (t *Table) PollsOver() { t.pollsOver = true }

// Releases returns what is to be released now, each record once. The last deliveries are not among them: the end of the session is no
// sooner than it has to be.
func (t *Table) Releases() (all []*Hold) {
	if !t.pollsOver {
		return nil
	}
	for h := t.oldest; h != nil; {
		next := h.next
		if h.stage == returning && !h.busy && !t.Last(h) {
			all = append(all, h)
			t.remove(h)
		}
		h = next
	}
	return all
}

// Lost returns what nobody has decided at its last delivery: the broker gives it up when the worker leaves, or has done so.
func (t *Table) Lost() (all []*Hold) {
	for h := t.oldest; h != nil; h = h.next {
		if t.Last(h) && h.stage != deciding {
			all = append(all, h)
		}
	}
	return all
}

// Held counts what is in the engine's hands.
func (t *Table) Held() int { return t.inEngine }

// Deciding counts what is to be accepted as soon as a renewal has ended.
func (t *Table) Deciding() int { return t.at(deciding) }

// Returning counts what is to be released, and what comes no more.
func (t *Table) Returning() int { return t.at(returning) }

func (t *Table) at(s stage) (n int) {
	for h := t.oldest; h != nil; h = h.next {
		if h.stage == s {
			n++
		}
	}
	return n
}
