package sim

import (
	"fmt"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/internal/offsets"
	"github.com/ackledger/ackledger/ledger"
)

// member is a process in the group that reads a cluster's partitions.
type member struct {
	*process
	cluster     *cluster
	assignments map[*partition]*assignment
}

// assignment is what a member has of a partition.
type assignment struct {
	part       *partition
	generation int
	fetch      int64 // the next offset to be delivered
	tracker    *offsets.Tracker
	seqs       map[int64]uint64
}

// String is the process' name.
func (m *member) String() string {
	if m == nil {
		return "nobody"
	}
	return m.process.String()
}

// assigned is the broker's word that a partition is this member's.
func (m *member) assigned(part *partition) {
	m.after(0, m.polls)
	if a := m.assignments[part]; a != nil { // it comes back before it is known that it was gone
		m.let(a, func() {})
	}
	m.assignments[part] = &assignment{
		part: part, generation: part.generation, fetch: part.committed, tracker: offsets.New(part.committed, -1), seqs: map[int64]uint64{},
	}
}

// revoked is the broker's word that a partition is to be given back: what is finished is committed before.
func (m *member) revoked(part *partition) {
	m.after(m.latency(), func() {
		a := m.assignments[part]
		if a == nil || a.generation != part.generation {
			return
		}
		m.let(a, func() {
			m.cluster.commit(part, m, a.generation, position(a))
			if part.owner == m && part.generation == a.generation {
				m.cluster.lost(part)
			}
		})
	})
	m.world.after(4*time.Second, func() { // it does not answer
		if part.moving && part.owner == m {
			m.cluster.lost(part)
		}
	})
}

// notices is the end of an assignment that was lost.
func (m *member) notices(part *partition) {
	if a := m.assignments[part]; a != nil && (a.generation != part.generation || part.owner != m) {
		m.note(m.process, "has lost partition", none, int64(part.number))
		m.let(a, func() {})
	}
}

// let lets go of a partition.
func (m *member) let(a *assignment, then func()) {
	if m.assignments[a.part] == a {
		delete(m.assignments, a.part)
	}
	m.drop(func(d delivery) bool { return d.of == any(a) }, m.between(0, time.Second), func() {
		if n := m.hands[a]; n != 0 {
			m.breaks(none, "a partition is given back when nothing of it is in hand: %s has %d messages of partition %d", m, n, a.part.number)
		}
		then()
	})
}

// assigns are the assignments in the order of their partitions.
func (m *member) assigns() (all []*assignment) {
	for _, part := range m.cluster.parts {
		if a := m.assignments[part]; a != nil {
			all = append(all, a)
		}
	}
	return all
}

func position(a *assignment) int64 {
	at, _ := a.tracker.Position()
	return at
}

// commit tells the broker what is finished, now and then.
func (m *member) commit() {
	for _, a := range m.assigns() {
		at := position(a)
		if !m.trouble(commitLost) {
			m.world.after(m.latency(), func() {
				if !m.draining { // its last commit waits for this one
					m.cluster.commit(a.part, m, a.generation, at)
				}
			})
		}
	}
	if !m.draining {
		m.after(100*time.Millisecond, m.commit)
	}
}

func (m *member) has(delivery) bool { return true }

func (m *member) drained(then func()) {
	for _, a := range m.assigns() {
		m.cluster.commit(a.part, m, a.generation, position(a))
	}
	then()
}

func (m *member) more() bool {
	for _, a := range m.assigns() {
		if a.generation == a.part.generation && a.part.owner == m && a.fetch < a.part.end {
			return true
		}
	}
	return false
}

func (m *member) poll() {
	for _, a := range m.assigns() {
		if a.generation != a.part.generation || a.part.owner != m { // its fetch brings nothing
			m.notices(a.part)
			continue
		}
		if n := min(m.room(), a.part.end-a.fetch, int64(1+m.rnd.IntN(50))); n > 0 {
			m.take(a, n)
		}
	}
}

// take offers the next n records, as items or as a range.
func (m *member) take(a *assignment, n int64) {
	from := a.fetch
	a.fetch += n
	for o := from; o < from+n; o++ {
		a.seqs[o], _ = a.tracker.Add(o, 0)
	}
	if r := (&records{m, a, from, n}); m.cfg.Ranged && m.flow.Ranges(m.cfg.Keys > 0) && r.plain() {
		m.offerRange(&flow.Range{
			Records: r, Ordered: m.cfg.Keys > 0, Len: int(n), Of: r, Claim: ledger.Stretch{
				First: ledger.Entry{Key: a.part.key(from), Delivery: a.part.key(from).ID, Ranged: true, Window: time.Hour}, Last: from + n - 1,
			},
		})
		return
	}
	for o := from; o < from+n; o++ {
		m.offer(m.item(a, o))
		if m.trouble(copied) {
			m.offer(m.copyOf(a, o))
		}
	}
}

// item makes an item of a record.
func (m *member) item(a *assignment, offset int64) *flow.Item {
	d := a.part.delivery(m.cfg.Keys, offset)
	d.of = a
	it := &flow.Item{Size: m.size(d.message), Of: d}
	if m.marked(unkeyed, d.message) {
		it.Invalid = errUnkeyed
	}
	it.Key, it.Ranged = d.key, m.cfg.Ranged
	it.Fingerprint = ledger.BodyFingerprint(d.key.ID)
	if k := m.cfg.Keys; k > 0 {
		it.OrderingKey = fmt.Sprintf("%d/%d", a.part.number, offset%int64(k))
	}
	return it
}

// copyOf makes an item of another copy of a message, which lies in no log and stands in no order. Some have another body: once the
// ledger knows the message, and not where it holds it in a range, which does not know its body.
func (m *member) copyOf(a *assignment, offset int64) *flow.Item {
	it := m.item(a, offset)
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

func (m *member) finished(d delivery, v flow.Verdict) {
	a := d.of.(*assignment)
	switch {
	case v.Ack:
		a.tracker.Finish(a.seqs[d.offset])
		delete(a.seqs, d.offset)
	case m.assignments[a.part] == a && !v.Held: // its broker brings it again
		m.after(v.Again+m.latency(), func() {
			if m.assignments[a.part] == a && !m.draining {
				m.offer(m.item(a, d.offset))
			}
		})
	}
}

// records are what a range is made of.
type records struct {
	m       *member
	of      *assignment
	from, n int64
}

// Size implements flow.Records.
func (r *records) Size(i int) int64 { return r.m.size(message{r.of.part.number, r.from + int64(i)}) }

// Expand implements flow.Records.
func (r *records) Expand(from, to int) (items []*flow.Item) {
	for i := from; i < to; i++ {
		items = append(items, r.m.item(r.of, r.from+int64(i)))
	}
	return items
}

// Keep implements flow.Records.
func (r *records) Keep(*flow.Item) {}

// plain says whether the records may go through as one: each has a key, and none is large.
func (r *records) plain() bool {
	for _, d := range r.deliveries() {
		if r.m.marked(unkeyed, d.message) || r.m.marked(large, d.message) {
			return false
		}
	}
	return true
}

// deliveries are those of the records.
func (r *records) deliveries() (all []delivery) {
	for o := r.from; o < r.from+r.n; o++ {
		d := r.of.part.delivery(r.m.cfg.Keys, o)
		d.of = r.of
		all = append(all, d)
	}
	return all
}
