package sim

import (
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/flow"
	"github.com/ackledger/ackledger/internal/offsets"
	"github.com/ackledger/ackledger/ledger"
)

// maxHeld is how many messages a process has in hand.
const maxHeld = 200

// assigned is the broker's word that a partition is this process'.
func (p *process) assigned(part *partition) {
	p.after(0, p.polls)
	if a := p.assignments[part]; a != nil { // it comes back before it is known that it was gone
		p.drop(a, func() {})
	}
	p.assignments[part] = &assignment{
		part: part, generation: part.generation, fetch: part.committed, tracker: offsets.New(part.committed, -1), seqs: map[int64]uint64{},
	}
}

// revoked is the broker's word that a partition is to be given back: what is finished is committed before.
func (p *process) revoked(part *partition) {
	p.after(p.latency(), func() {
		a := p.assignments[part]
		if a == nil || a.generation != part.generation {
			return
		}
		p.drop(a, func() {
			p.broker.commit(part, p, a.generation, position(a))
			if part.owner == p && part.generation == a.generation {
				p.broker.lost(part)
			}
		})
	})
	p.world.after(4*time.Second, func() { // it does not answer
		if part.moving && part.owner == p {
			p.broker.lost(part)
		}
	})
}

// notices is the end of an assignment that was lost.
func (p *process) notices(part *partition) {
	if a := p.assignments[part]; a != nil && (a.generation != part.generation || part.owner != p) {
		p.step("%s has lost partition %d", p, part.number)
		p.drop(a, func() {})
	}
}

// drop takes a partition's messages back.
func (p *process) drop(a *assignment, then func()) {
	if p.assignments[a.part] == a {
		delete(p.assignments, a.part)
	}
	p.flow.Drop(p.now, func(it *flow.Item) bool { return of(it).of == a }, p.between(0, time.Second), then)
}

// poll fetches what there is room for.
func (p *process) poll() {
	if p.draining {
		return
	}
	for _, a := range p.assigns() {
		if a.generation != a.part.generation || a.part.owner != p { // its fetch brings nothing
			p.notices(a.part)
			continue
		}
		held, _, bytes := p.flow.Held()
		n := min(int64(maxHeld-held), bytes.Room()/size, a.part.end-a.fetch, int64(1+p.rnd.IntN(50)))
		if n > 0 && p.flow.MayStart() {
			p.offer(a, n)
		}
	}
}

// polls polls soon: the flow says that it makes sense.
func (p *process) polls() {
	if p.polling {
		return
	}
	p.polling = true
	rest := p.between(time.Millisecond, 20*time.Millisecond)
	if p.trouble(callLate) {
		rest = p.between(0, 3*time.Second)
	}
	p.after(rest, func() {
		p.polling = false
		p.poll()
	})
}

// offer offers the next n records, as items or as a range.
func (p *process) offer(a *assignment, n int64) {
	from := a.fetch
	a.fetch += n
	p.offered += int(n)
	for o := from; o < from+n; o++ {
		a.seqs[o], _ = a.tracker.Add(o, 0)
	}
	if p.cfg.Ranged && p.flow.Ranges(p.cfg.Keys > 0) {
		r := &records{p.world, a, from, n}
		p.flow.OfferRange(p.now, &flow.Range{
			Records: r, Ordered: p.cfg.Keys > 0, Len: int(n), Of: r, Claim: ledger.Stretch{
				First: ledger.Entry{Key: a.part.key(from), Delivery: a.part.key(from).ID, Ranged: true, Window: time.Hour}, Last: from + n - 1,
			},
		})
		return
	}
	for o := from; o < from+n; o++ {
		p.flow.Offer(p.now, a.item(p.world, o))
		if p.trouble(copied) {
			p.offerCopy(a, o)
		}
	}
}

// offerCopy offers another copy of a message, which lies in no log and stands in no order.
func (p *process) offerCopy(a *assignment, offset int64) {
	it := a.item(p.world, offset)
	p.offered++
	it.Of, it.Copy, it.OrderingKey, it.Log = delivery{a, offset, true}, true, "", "copies"
	p.flow.Offer(p.now, it)
}

// records are what a range is made of.
type records struct {
	w       *world
	of      *assignment
	from, n int64
}

// Size implements flow.Records.
func (r *records) Size(int) int64 { return size }

// Expand implements flow.Records.
func (r *records) Expand(from, to int) (items []*flow.Item) {
	for i := from; i < to; i++ {
		items = append(items, r.of.item(r.w, r.from+int64(i)))
	}
	return items
}

// Keep implements flow.Records.
func (r *records) Keep(*flow.Item) {}

// pump carries out what the flow decides, until it has decided all.
func (p *process) pump() {
	if p.pumping {
		return
	}
	p.pumping = true
	for more := true; more && p.alive; {
		more = p.carryOut()
		more = p.tell() || more
		more = p.claim() || more
		more = p.settle() || more
		more = p.dispatch() || more
		more = p.takeSuspect() || more
		more = p.publish() || more
	}
	p.pumping = false
	if !p.alive {
		return
	}
	if at, ok := p.flow.NextWake(); ok && (p.armed <= p.now || at < p.armed) {
		p.armed = at
		p.after(max(at-p.now, 0), func() { p.flow.Wake(p.now) })
	}
	if p.flow.Watched() && !p.rescuing {
		p.rescuing = true
		p.after(time.Millisecond, p.rescue)
	}
}

func (p *process) carryOut() bool {
	c := p.flow.End()
	more := len(c.Recall)+len(c.Ended)+len(c.Concluded) > 0
	for i := 0; i < len(c.Recall); i++ {
		p.chunks[c.Recall[i]].recall(p)
	}
	for _, off := range c.CallOff {
		p.chunks[off.Dispatch].callOff(off.At)
	}
	if slices.Contains(c.Concluded, p.suspect) {
		p.suspect = nil
	}
	ended := slices.Clone(c.Ended)
	if c.Improved {
		p.polls()
	}
	c.Reset()
	for _, d := range ended {
		if then, ok := d.Of.(func()); ok {
			then()
		}
	}
	return more
}

// tell is the worker's side: what is acknowledged is finished in its partition.
func (p *process) tell() bool {
	var t flow.Telling
	if !p.flow.Tell(&t) {
		return false
	}
	for i := range t.Finished {
		f := &t.Finished[i]
		if r := f.Range; r != nil {
			rec := r.Of.(*records)
			p.offered -= int(rec.n)
			for o := rec.from; o < rec.from+rec.n; o++ {
				p.finished(rec.of, o, f.Verdict)
			}
			continue
		}
		p.offered--
		if d := of(f.Item); !d.copied {
			p.finished(d.of, d.offset, f.Verdict)
		} else if f.Verdict.Ack {
			p.mustBeTerminal(d.of.part, d.offset, "is acknowledged")
		}
	}
	p.flow.Told(&t)
	return true
}

func (p *process) finished(a *assignment, offset int64, v flow.Verdict) {
	switch {
	case v.Ack:
		p.mustBeTerminal(a.part, offset, "is acknowledged")
		a.tracker.Finish(a.seqs[offset])
		delete(a.seqs, offset)
	case p.assignments[a.part] == a && !v.Held: // its broker brings it again
		p.after(v.Again+p.latency(), func() {
			if p.assignments[a.part] == a && !p.draining {
				p.offered++
				p.flow.Offer(p.now, a.item(p.world, offset))
			}
		})
	}
}
