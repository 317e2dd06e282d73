package sim

import (
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/internal/offsets"
	"github.com/ackledger/ackledger/ledger"
)

// member is a process in the group that reads a cluster's partitions: what package kafka does around [offsets.Table].
type member struct {
	*process
	cluster *cluster
	table   *offsets.Table
	all     []*assignment // that ever were, and have something in hand or are not gone
	waits   bool          // its poll does
	short   bool          // the last poll met no space
	turn    int           // of the assignment that is first in the next poll
	owning  bool          // a commit is under way
	waiting []func()      // for its end
	crowded time.Duration // since when a partition has crowded; zero: none does
}

// String is the process' name.
func (m *member) String() string {
	if m == nil {
		return "nobody"
	}
	return m.process.String()
}

// clock is the time of day.
func (m *member) clock() time.Time { return time.Unix(1_000_000_000, 0).Add(m.now) }

// assigned is the broker's word that a partition is this member's, from what is committed.
func (m *member) assigned(part *partition, from offsetEpoch) {
	a := &assignment{member: m, part: part, generation: part.generation, read: from, sent: from.offset}
	a.Start, a.Epoch, a.Committed = from.offset, from.epoch, from.offset
	if m.trouble(unsure) {
		a.Unsure = m.clock().Add(m.between(0, 10*time.Second))
	}
	m.install(a)
}

// install begins an assignment. One that was there is let go of.
func (m *member) install(a *assignment) {
	a.TopicPartition, a.Of, a.prev, a.moved, a.confirmed, a.by = a.part.TopicPartition, a, -1, m.now, a.Committed, map[message]*taken{}
	m.all = append(slices.DeleteFunc(m.all, func(a *assignment) bool { return a.gone && m.hands[a] == 0 }), a)
	var was *assignment
	for _, b := range m.all[:len(m.all)-1] {
		if b.part == a.part && !b.gone {
			was = b
		}
	}
	old := m.table.Install(&a.Assignment)
	if (old == nil) != (was == nil) || was != nil && (old != &was.Assignment || !old.Closed() || !old.Gone()) || m.at(a.part) != a {
		m.breaks(none, "a partition has one assignment: %s keeps the old one of partition %d", m, a.part.number)
	}
	if was != nil {
		was.gone = true
		m.drop(was, func() {})
	}
	m.after(0, m.polls)
}

// at is the assignment of a partition; nil: there is none.
func (m *member) at(part *partition) *assignment {
	if a := m.table.Get(part.TopicPartition); a != nil {
		return a.Of.(*assignment)
	}
	return nil
}

// close stops an assignment from taking records in. False: it was closed before.
func (m *member) close(a *assignment) bool {
	closed := m.table.Close(func(b *offsets.Assignment) bool { return b == &a.Assignment })
	if a.closed == (len(closed) == 1) || !a.Closed() {
		m.breaks(none, "an assignment closes once: %s closes partition %d", m, a.part.number)
	}
	a.closed = true
	return len(closed) == 1
}

// revoked is the broker's word that a partition is to be given back: what is finished is committed before.
func (m *member) revoked(part *partition) {
	m.after(m.latency(), func() {
		a := m.at(part)
		if a == nil || a.generation != part.generation || !m.close(a) {
			return
		}
		m.drop(a, func() {
			m.commitLast([]*assignment{a}, func() {
				if part.owner == m && part.generation == a.generation {
					m.cluster.lost(part)
				}
			})
		})
	})
	generation := part.generation
	m.world.after(m.between(2*time.Second, 4*time.Second), func() { // it does not answer
		if part.moving && part.generation == generation {
			m.cluster.lost(part)
		}
	})
}

// notices is the end of an assignment that was lost.
func (m *member) notices(part *partition, generation int) {
	if a := m.at(part); a != nil && a.generation <= generation && m.close(a) {
		m.note(m.process, "has lost partition", none, int64(part.number))
		m.abandon(a)
	}
}

// abandon lets go of a closed assignment without a commit.
func (m *member) abandon(a *assignment) {
	m.own(func(free func()) {
		m.discard(a)
		m.drop(a, func() {})
		free()
	})
}

// drop has the flow let go of what is in hand of a closed assignment.
func (m *member) drop(a *assignment, then func()) {
	a.closed = true
	for _, t := range a.taken {
		if t.again { // the broker was to bring it once more
			t.again = false
			a.finish(t, false)
		}
	}
	m.process.drop(func(d delivery) bool { return d.of == any(a) }, m.between(0, time.Second), func() {
		if n := m.hands[a]; n != 0 || !a.Drained() {
			m.breaks(none, "a partition is given back when nothing of it is in hand: %s has %d messages of partition %d", m, n, a.part.number)
		}
		then()
	})
}

// rejoin gives a partition up of which records were thrown away, to begin again where it is committed.
func (m *member) rejoin(a *assignment) {
	if m.close(a) {
		m.abandon(a)
		if a.part.owner == m && a.part.generation == a.generation {
			m.cluster.lost(a.part)
		}
	}
}

// dataLoss goes on where the log does. What was not lost and is in hand is not passed over: then all begins where it is committed.
func (m *member) dataLoss(a *assignment, to int64, epoch int32) {
	m.note(m.process, "learns of lost records from", message{a.part.number, to}, 0)
	if needs := a.Needs(to); needs != a.needs(to) {
		m.breaks(none, "what is in hand is not passed over: %s goes to %d of partition %d", m, to, a.part.number)
	} else if needs {
		m.rejoin(a)
		return
	}
	m.waits = true
	m.own(func(free func()) {
		defer free()
		m.waits = false
		m.after(0, m.polls)
		if a.closed {
			return
		}
		b := &assignment{member: m, part: a.part, generation: a.generation, read: offsetEpoch{to, epoch}, sent: to}
		b.Start, b.Epoch, b.Committed = to, epoch, -1
		m.install(b)
	})
}

func (m *member) poll() {
	if m.waits {
		return
	}
	stuck, wait := m.table.Crowded(m.clock())
	m.mustCrowd(stuck, wait)
	if wait > 0 {
		m.after(wait, m.polls)
		return
	}
	left, took := min((m.space()+1)/2, m.cluster.span), 0 // all may be of one partition, whose first record waits
	m.short = left <= 0
	list := m.assigns()
	m.turn++
	for i := 0; i < len(list) && !m.waits; i++ {
		a := list[(i+m.turn)%len(list)]
		if part := a.part; a.generation != part.generation || part.owner != m { // its fetch brings nothing
			m.notices(part, a.generation)
			continue
		}
		a.saw()
		full := m.table.Full(a.TopicPartition)
		if a.closed && m.trouble(reread) { // it was closed while a fetch was under way
			for _, r := range a.part.from(a.read.offset) {
				a.take(r)
			}
		}
		if a.mustBeFull(full) || a.closed || left <= 0 {
			continue
		}
		n := m.take(a, min(left, 1+m.rnd.IntN(50)))
		left, took = left-n, took+n
	}
	if took > 0 {
		m.polls()
	}
}

// more says whether a poll would bring something, within the second that a crowd may take.
func (m *member) more() bool {
	if m.waits || m.space() <= 0 {
		return false
	}
	return slices.ContainsFunc(m.assigns(), func(a *assignment) bool {
		mine := a.generation == a.part.generation && a.part.owner == m && !a.closed && !m.table.Full(a.TopicPartition)
		return mine && len(a.part.from(a.read.offset)) > 0
	})
}

// assigns are the assignments in the order of their partitions.
func (m *member) assigns() (all []*assignment) {
	for _, a := range m.table.All() {
		all = append(all, a.Of.(*assignment))
	}
	return all
}

// take reads up to n records, and offers them as items or as a range.
func (m *member) take(a *assignment, n int) int {
	if to, lost := a.part.diverges(a.read); lost {
		a.read.offset = to
		a.read.epoch = a.part.epochBefore(to)
		if m.rnd.IntN(2) == 0 { // or the client goes back without a word
			m.dataLoss(a, to, a.read.epoch)
			return 0
		}
	}
	from := a.read.offset
	if m.trouble(reread) {
		from = min(from, max(a.Start, from-m.rnd.Int64N(5)))
	}
	records := a.part.from(from)
	records = records[:min(n, len(records))]
	var fresh []*taken
	for i, r := range records {
		t := a.take(r)
		if t == nil && a.rewound {
			records = records[:i]
			break
		}
		if t != nil {
			fresh = append(fresh, t)
		}
		if r.offset >= a.read.offset {
			a.read = offsetEpoch{r.offset + 1, r.epoch}
		}
	}
	a.pauses()
	m.offerAll(fresh)
	if a.rewound {
		a.rewound = false
		r := a.part.from(a.read.offset)[0]
		at := offsets.Record{Offset: r.offset, Epoch: r.epoch}
		to, epoch := at.Before()
		m.dataLoss(a, to, epoch)
	}
	return len(records)
}

func (m *member) offerAll(fresh []*taken) {
	if len(fresh) > 0 && m.ranged() && m.flow.Ranges(m.cfg.Keys > 0) && records(fresh).plain() {
		m.offerRange(rangeOf(fresh))
		return
	}
	for _, t := range fresh {
		m.offer(t.item())
		if m.trouble(copied) {
			m.offer(t.copy())
		}
	}
}

// rangeOf makes a range of records.
func rangeOf(all []*taken) *flow.Range {
	first, m := all[0], all[0].of.member
	claim := ledger.Stretch{
		First: ledger.Entry{Key: first.key, Delivery: first.key.ID, Ranged: true, Window: m.hours(window)}, Last: all[len(all)-1].offset,
	}
	for i, t := range all[1:] {
		if from, to := all[i].offset+1, t.offset; from < to {
			claim.Gaps = append(claim.Gaps, ledger.Gap{From: from, To: to})
		}
	}
	return &flow.Range{Records: records(all), Ordered: m.cfg.Keys > 0, Len: len(all), Of: records(all), Claim: claim}
}

func (m *member) finished(d delivery, v flow.Verdict) {
	a := d.of.(*assignment)
	t := a.by[d.message]
	if !v.Ack && !v.Held && !a.closed && !m.draining { // its broker brings it again
		t.again = true
		m.after(v.Again+m.latency(), func() {
			if t.again {
				t.again = false
				m.offer(t.item())
			}
		})
		return
	}
	a.finish(t, v.Ack)
	if resumes := a.resumes(); m.unstuck() || resumes || m.short && m.space() > 0 {
		m.polls()
	}
}
