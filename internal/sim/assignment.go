package sim

import (
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/internal/offsets"
	"github.com/ackledger/ackledger/ledger"
)

// assignment is what a member has of a partition, and what must be true of it.
type assignment struct {
	offsets.Assignment
	member     *member
	part       *partition
	generation int
	read       offsetEpoch // to where its client has read
	prev       int64       // the last record to be handled
	rewound    bool        // the next record stands where another one was

	taken     []*taken // all that were, in order
	by        map[message]*taken
	closed    bool
	gone      bool
	stuck     bool
	paused    bool
	sent      int64 // the last offset to be committed
	confirmed int64
	moved     time.Duration // when the last record was given back, or the first came
	end       int64         // of the log, as it was seen
	lanes     flow.Lanes    // what is known of those of which messages are parked
}

// taken is a record that was taken in.
type taken struct {
	*record
	of    *assignment
	key   ledger.Key
	seq   uint64
	done  bool
	back  bool // in hand no more
	again bool // the broker is to bring it once more

	parking bool // its lane is marked for it
}

// take takes a record in; nil: it is not to be handled.
func (a *assignment) take(r *record) *taken {
	m, last := a.member, offsetEpoch{a.Start - 1, a.Epoch}
	if n := len(a.taken); n > 0 {
		last = offsetEpoch{a.taken[n-1].offset, a.taken[n-1].epoch}
	}
	want := offsets.Taken
	switch {
	case a.closed, r.offset <= last.offset && r.epoch <= last.epoch:
		want = offsets.Passed
	case r.offset <= last.offset:
		want = offsets.Rewound
	case r.control:
		want = offsets.Passed
	}
	seq, is := m.table.Take(m.clock(), &a.Assignment, offsets.Record{Offset: r.offset, Epoch: r.epoch, Size: m.size(r.message), Control: r.control})
	if is != want {
		m.breaks(r.message, "each record is taken in once: %s does %d with %s, at %d after %d", m, is, r, r.offset, last.offset)
	}
	a.rewound = is == offsets.Rewound
	fresh := !a.closed && r.offset > last.offset
	if !fresh {
		return nil
	}
	t := &taken{record: r, of: a, seq: seq, key: r.keyAfter(a.prev), done: r.control, back: r.control}
	if t.key.Pos.First = a.part.begin; !r.control {
		if n, _, _ := weigh(int64(m.cluster.held)*size, a); n == 0 {
			a.moved = m.now
		}
		a.prev = r.offset
	}
	if a.taken = append(a.taken, t); r.control {
		return nil
	}
	a.by[r.message] = t
	return t
}

// finish lets go of a record.
func (a *assignment) finish(t *taken, ack bool) {
	m := a.member
	m.table.Finish(m.clock(), &a.Assignment, t.seq, m.size(t.message), ack)
	t.back, a.moved = true, m.now
	t.done = t.done || ack && !a.gone
	if at, want := a.position(); at != want {
		m.breaks(t.message, "the position is that of the finished prefix: %s is at %v of partition %d, of %v", m, at, a.part.number, want)
	}
}

// prefix is how many of the taken ones are finished, from the first on.
func (a *assignment) prefix() int {
	for i, t := range a.taken {
		if !t.done {
			return i
		}
	}
	return len(a.taken)
}

// position is what the assignment says may be committed, and what may.
func (a *assignment) position() (is, want offsetEpoch) {
	is.offset, is.epoch = a.Position()
	if n := a.prefix(); n > 0 {
		return is, offsetEpoch{a.taken[n-1].offset + 1, a.taken[n-1].epoch}
	}
	return is, offsetEpoch{a.Start, a.Epoch}
}

// needs says whether a record before an offset is not finished.
func (a *assignment) needs(before int64) bool {
	n := a.prefix()
	return n < len(a.taken) && a.taken[n].offset < before
}

func (a *assignment) span() int { return len(a.taken) - a.prefix() }

// mustBeDue checks what is to be committed, if anything may be: what is finished and not confirmed, or not sure.
func (a *assignment) mustBeDue(to offsetEpoch, is, may bool) {
	m := a.member
	_, want := a.position()
	if is != (may && (want.offset > a.confirmed || m.clock().Before(a.Unsure))) {
		m.breaks(none, "what is finished is committed, and nothing else: %s is at %v of partition %d, confirmed %d", m, want, a.part.number, a.confirmed)
	}
	if is && (to != want || to.offset < a.sent) {
		m.breaks(none, "what is committed is the finished prefix, and only grows: %s commits %v of partition %d, not %v", m, to, a.part.number, want)
	}
	if is {
		a.sent = to.offset
	}
}

// item makes an item of a record.
func (t *taken) item() *flow.Item {
	return t.of.member.item(t.delivery(), t.lane)
}

func (t *taken) delivery() delivery {
	d := t.record.delivery
	d.key, d.of = t.key, t.of
	return d
}

// copy makes an item of another copy of a message, which lies in no log and stands in no order. Some have another body: once the
// ledger knows the message, and not where it holds it in a range, which does not know its body.
func (t *taken) copy() *flow.Item {
	m, it := t.of.member, t.item()
	d := of(it)
	d.copied, d.first = true, true
	if it.Copy = true; m.rnd.IntN(2) == 0 {
		it.OrderingKey, it.Log = "", "copies"
	}
	switch {
	case m.trouble(foreign):
		it.Skip, d.skip = true, true
	case !m.cfg.Ranged && m.terminal(d.message) && m.trouble(forged):
		it.Fingerprint, d.forged = ledger.BodyFingerprint([]byte("forged")), true
	}
	it.Of = d
	return it
}

// records are what a range is made of.
type records []*taken

// Size implements flow.Records.
func (r records) Size(i int) int64 { return r[i].of.member.size(r[i].message) }

// Expand implements flow.Records.
func (r records) Expand(from, to int) (items []*flow.Item) {
	for _, t := range r[from:to] {
		items = append(items, t.item())
	}
	return items
}

// plain says whether the records may go through as one: they are of one epoch, each has a key, and none is large.
func (r records) plain() bool {
	for _, t := range r {
		if m := t.of.member; t.epoch != r[0].epoch || m.marked(unkeyed, t.message) || m.marked(large, t.message) {
			return false
		}
	}
	return true
}

// deliveries are those of the records.
func (r records) deliveries() (all []delivery) {
	for _, t := range r {
		all = append(all, t.delivery())
	}
	return all
}
