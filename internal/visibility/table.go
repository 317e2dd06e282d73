package visibility

import "time"

// Arrival says what a received message is to the worker.
type Arrival uint8

// What a received message can be.
const (
	ArrivedNew   Arrival = iota // to be handled
	ArrivedAgain                // in hand already: its handle is kept, and nothing else of it
	ArrivedDead                 // its visibility may be over: nothing is done with it
)

// Receive takes in a message that a poll has brought. sent is when the poll was sent: the visibility began after that, so it is
// counted from there. All that a poll has brought is taken in in one step: a group that is let go of between two of its messages
// would go on with the second one.
func (t *Table) Receive(h *Hold, sent, now time.Duration) Arrival {
	until := sent + t.visibility
	if now >= until-t.margin {
		return ArrivedDead
	}
	arrival := ArrivedAgain
	known := t.holds[h.ID]
	if known != nil && (known.dropped && known.stage == held || t.fifo && known.stage == returning) {
		// The engine goes on with the old copy only to settle it, and then lets go of it, or has done so: this one takes its
		// place, or later messages of its group would run before it.
		if known.lapsed = true; known.stage == returning {
			t.remove(known)
		}
		known = nil
	}
	if known == nil {
		t.add(h)
		known, arrival = h, ArrivedNew
	} else { // it is handed back in the order in which its group came last
		t.unlink(known)
		t.link(known)
	}
	known.Handle, known.until, known.last, known.lapsed, known.retryAt = h.Handle, until, sent+t.limit, false, 0
	t.queueDelete(known)
	return arrival
}

// Start is asked right before a handler starts: never on a handle that may be dead. It returns what the engine is to let go of
// with such a message: the rest of its group. The message itself is let go of by the answer. So is one that was not offered yet
// when the engine was told to let go of it: those before it will not run.
func (t *Table) Start(h *Hold, now time.Duration) (ok bool, drops []*Hold) {
	if h.dropped {
		return false, nil // and what came of its group since then stays
	}
	if t.fresh(h, now) {
		return true, nil
	}
	h.lapsed = true
	if t.fifo {
		drops = t.drop([]*Hold{h})
	}
	return false, drops
}

// Dropped says whether the engine was told to let go of a message. One that it did not have then it must be told of again.
func (t *Table) Dropped(h *Hold) bool { return h.dropped }

// Ack is told that the ledger is terminal for a message: it is to be deleted.
func (t *Table) Ack(h *Hold) {
	if t.holds[h.ID] != h { // a newer copy is in hand, with the handle that counts
		t.leaveEngine(h, gone)
		return
	}
	t.leaveEngine(h, deleting)
	t.pending++
	t.queueDelete(h)
}

// Forget is told that the engine has let go of a message that a handler may still have: its visibility ends by itself.
func (t *Table) Forget(h *Hold) { t.leaveEngine(h, gone) }

// HandBack is told that the engine has let go of a message that is to come again after some time; 0: at once, or not known. Its
// visibility is set only with a handle that is good, and ended only when the worker stops: else it would come straight back to a
// poll of our own. It returns whether there is a change to plan.
func (t *Table) HandBack(h *Hold, again, now time.Duration) bool {
	if !t.fresh(h, now) || again <= 0 && !t.draining {
		t.leaveEngine(h, gone)
		return false
	}
	h.again = again
	t.leaveEngine(h, returning)
	return true
}

// Drain says that the worker stops: from now on messages are handed back.
func (t *Table) Drain() { t.draining = true }

// PollsOver says that no poll of ours is open any more.
func (t *Table) PollsOver() { t.pollsOver = true }

// Lanes counts what can run side by side at most: groups of a FIFO queue, messages of another one; and all in hand.
func (t *Table) Lanes() (lanes, all int) {
	if t.fifo {
		return len(t.groups), len(t.holds)
	}
	return t.inEngine, len(t.holds)
}

// Waiting counts what is still to be deleted and what is still to be handed back.
func (t *Table) Waiting() (deletes, returns int) {
	for _, h := range t.holds {
		if h.stage == returning {
			returns++
		}
	}
	return t.pending, returns
}
