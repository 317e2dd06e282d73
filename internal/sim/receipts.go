package sim

import (
	"time"

	"github.com/ackledger/ackledger/internal/visibility"
)

// seen is what is known of a receiver's messages to whoever sees everything.
type seen struct {
	holds   map[message]*visibility.Hold // the newest that the flow had of it
	acked   map[message]bool
	asked   map[*visibility.Hold]bool   // there was a request about it; true: it is under way
	back    map[*visibility.Hold]uint64 // handed back, by when
	ended   []*visibility.Hold          // of them, those that were to be in sight at once
	lowest  map[string]mark             // of each group: what was asked to be in sight last
	newest  map[message]string          // handle
	deleted map[*visibility.Hold]bool   // there was a delete of it
	refused map[string]bool             // handles
	backs   int                         // requests under way that hand back
	stopped time.Duration               // when the worker was known to stop; 0: it is not
}

// mark is when a message was asked to be in sight.
type mark struct {
	offset int64
	made   uint64
}

func newSeen() seen {
	return seen{
		holds: map[message]*visibility.Hold{}, acked: map[message]bool{}, asked: map[*visibility.Hold]bool{},
		back: map[*visibility.Hold]uint64{}, lowest: map[string]mark{}, newest: map[message]string{}, refused: map[string]bool{},
		deleted: map[*visibility.Hold]bool{},
	}
}

func (s *seen) hold(d delivery) {
	s.holds[d.message] = d.of.(*visibility.Hold)
	delete(s.acked, d.message)
}

// handedBack notes that a message is to be handed back, be it at the end of the worker.
func (s *seen) handedBack(h *visibility.Hold, made uint64, end bool) {
	if s.back[h] = made; end {
		s.ended = append(s.ended, h)
	}
}

// mustBeAlone checks that a request about a message is the only one under way.
func (r *receiver) mustBeAlone(h *visibility.Hold) {
	if r.seen.asked[h] {
		r.breaks(r.queue.handles[h.Handle].message, "one request about a message is under way at a time: %s sends another about %s", r, h.ID)
	}
	r.seen.asked[h] = true
}

// mustBeGood checks that a handle is good when it is used, with time to spare: the queue hides its message, and has not refused it.
func (r *receiver) mustBeGood(name, what string) {
	h := r.queue.handles[name]
	if r.now+r.cfg.Visibility/20 >= h.receipts[h.nth].until || r.seen.refused[name] {
		r.breaks(h.message, "nothing %s on a handle that may be dead: %s, %s", what, r, name)
	}
}

// mustBeAsked checks a change of visibility that is about to be sent. A group is handed back from its end: none of it is in sight
// before those behind it were asked to be, as far as they could.
func (r *receiver) mustBeAsked(c visibility.Change) {
	r.mustBeGood(c.Handle, "is hidden")
	h := r.queue.handles[c.Handle]
	if r.now+time.Duration(c.Seconds)*time.Second > h.receipts[h.nth].at+r.queue.limit {
		r.breaks(h.message, "a message is hidden for a limited time: %s asks for %d s of %s", r, c.Seconds, c.Handle)
	}
	_, back := r.seen.back[c.Hold]
	finished := r.seen.holds[h.message] == c.Hold && r.hands[c.Hold] == 0 && r.seen.acked[h.message]
	if !c.Back && finished && !back && !r.seen.deleted[c.Hold] {
		r.breaks(h.message, "what is acknowledged is not only hidden: %s extends %s", r, h)
	}
	if !c.Back {
		if r.hands[c.Hold] > 0 && !r.live() || back && !r.draining {
			r.breaks(h.message, "what is not in hand, or nobody's, is not kept hidden: %s extends %s", r, h)
		}
		return
	}
	if c.Seconds > 0 {
		return
	}
	if r.open > 0 {
		r.breaks(h.message, "what is handed back at once meets no poll of its own: %s, %s", r, c.Handle)
	}
	low, before := r.seen.lowest[h.group]
	if _, asked := r.seen.asked[c.Hold]; r.queue.fifo() && before && h.offset > low.offset && r.seen.back[c.Hold] < low.made && !asked {
		r.breaks(h.message, "a group is handed back from its end: %s hands back %s after %d", r, h, low.offset)
	}
	r.seen.lowest[h.group] = mark{h.offset, r.made}
}

// undisturbed says whether nothing kept a process from its requests, for long enough before a time.
func (r *receiver) undisturbed(before time.Duration) bool {
	return r.alive && max(r.disturbed, r.frozen) < before-2*r.cfg.Visibility
}

// mustHaveBeenKept checks, of a message that is received once more, that whoever had it in hand has kept it hidden, and whoever was
// told that it is finished has deleted it, for as long as that could be done.
func (q *queue) mustHaveBeenKept(m *stored, last receipt) {
	r, until := last.by, last.until
	for _, other := range m.receipts { // two of one worker's polls were answered in another order, so it has an older handle
		if other.by == r {
			until = max(until, other.until)
		}
	}
	if last.void || q.now < until || until > last.at+q.limit-timeout-q.cfg.Visibility || !r.undisturbed(until) {
		return
	}
	switch {
	case r.hands[r.seen.holds[m.message]] > 0:
		q.breaks(m.message, "what is in hand stays hidden: %s has %s", r, m)
	case r.seen.acked[m.message] && r.seen.newest[m.message] == m.handle(): // else it was deleted by an old handle, which may do nothing
		q.breaks(m.message, "what is acknowledged is deleted: %s has not deleted %s", r, m)
	}
}

// backs is 1 if a batch hands back messages.
func backs(batch []visibility.Change) int {
	if batch[0].Back {
		return 1
	}
	return 0
}

// mustBeTheOnlyBack checks that requests which hand back messages of groups are sent one after the other.
func (r *receiver) mustBeTheOnlyBack(batch []visibility.Change) {
	if r.seen.backs += backs(batch); r.queue.fifo() && r.seen.backs > 1 {
		r.breaks(none, "groups are handed back by one request at a time: %s sends another", r)
	}
}

// mustBeNew checks that a message which is to be handled is not in hand already, but for what is being let go of.
func (r *receiver) mustBeNew(m message) {
	if h := r.seen.holds[m]; r.hands[h] > 0 && !r.table.Dropped(h) {
		r.breaks(m, "what is in hand is not taken in again: %s takes in %s", r, m)
	}
}

// mustBeNewest checks that a message is deleted by its newest handle.
func (r *receiver) mustBeNewest(d visibility.Deletion) {
	r.seen.deleted[d.Hold] = true
	if m := r.queue.handles[d.Handle].message; d.Handle != r.seen.newest[m] {
		r.breaks(m, "a message is deleted by its newest handle: %s deletes by %s after %s", r, d.Handle, r.seen.newest[m])
	}
}

// mustHaveHandedBack checks the end of a worker: its table is empty, and what it had is in sight, unless requests went wrong.
func (r *receiver) mustHaveHandedBack() {
	deletes, returns := r.table.Waiting()
	lanes, all := r.table.Lanes()
	if lanes != 0 || all != 0 && (deletes+returns == 0 || max(r.disturbed, r.frozen) < r.seen.stopped) {
		r.breaks(none, "when a worker ends nothing is in its table: %s has %d messages of %d lanes", r, all, lanes)
	}
	for _, hold := range r.seen.ended {
		h := r.queue.handles[hold.Handle]
		if last := h.receipts[h.nth]; !h.deleted && r.now < last.until && r.undisturbed(r.now) && r.now < last.at+r.queue.limit-timeout-r.cfg.Visibility {
			r.breaks(h.message, "what a worker has not handled is in sight when it ends: %s, %s", r, h)
		}
	}
}
