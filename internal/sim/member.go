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
		m.step("%s has lost partition %d", m, part.number)
		m.let(a, func() {})
	}
}

// let lets go of a partition.
func (m *member) let(a *assignment, then func()) {
	if m.assignments[a.part] == a {
		delete(m.assignments, a.part)
	}
	m.drop(func(d delivery) bool { return d.of == any(a) }, m.between(0, time.Second), then)
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
			m.world.after(m.latency(), func() { m.cluster.commit(a.part, m, a.generation, at) })
		}
	}
	if !m.draining {
		m.after(100*time.Millisecond, m.commit)
	}
}

func (m *member) drained() {
	for _, a := range m.assigns() {
		m.cluster.commit(a.part, m, a.generation, position(a))
	}
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
	if m.cfg.Ranged && m.flow.Ranges(m.cfg.Keys > 0) {
		r := &records{m, a, from, n}
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
			m.offerCopy(a, o)
		}
	}
}

// item makes an item of a record.
func (m *member) item(a *assignment, offset int64) *flow.Item {
	d := a.part.delivery(m.cfg.Keys, offset)
	d.of = a
	it := &flow.Item{Size: size, Of: d}
	it.Key, it.Ranged = d.key, m.cfg.Ranged
	it.Fingerprint = ledger.BodyFingerprint(d.key.ID)
	if k := m.cfg.Keys; k > 0 {
		it.OrderingKey = fmt.Sprintf("%d/%d", a.part.number, offset%int64(k))
	}
	return it
}

// offerCopy offers another copy of a message, which lies in no log and stands in no order.
func (m *member) offerCopy(a *assignment, offset int64) {
	it := m.item(a, offset)
	d := of(it)
	d.copied, d.first = true, true
	it.Of, it.Copy, it.OrderingKey, it.Log = d, true, "", "copies"
	m.offer(it)
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
func (r *records) Size(int) int64 { return size }

// Expand implements flow.Records.
func (r *records) Expand(from, to int) (items []*flow.Item) {
	for i := from; i < to; i++ {
		items = append(items, r.m.item(r.of, r.from+int64(i)))
	}
	return items
}

// Keep implements flow.Records.
func (r *records) Keep(*flow.Item) {}

// deliveries are those of the records.
func (r *records) deliveries() (all []delivery) {
	for o := r.from; o < r.from+r.n; o++ {
		d := r.of.part.delivery(r.m.cfg.Keys, o)
		d.of = r.of
		all = append(all, d)
	}
	return all
}
