package locks

import (
	"slices"
	"time"
)

// Plan says which locks to renew now, in batches to be sent one after the other, and what the engine is to let go of, because it has
// lapsed since the last plan. live: this worker's lease holds; without it only records at their reserved deliveries are renewed,
// since the broker would give them up. The outcome of each batch is to be told to [Table.Renewed].
//
// What was refused together with others of its partition is renewed with half as many, until it is: the broker refuses all for one.
func (t *Table) Plan(now time.Duration, live bool) (batches [][]*Hold, drops []*Hold) {
	batches, drops = t.plan(now, func(h *Hold) bool {
		return h.stage == held && (live || t.Reserved(h))
	}, held)
	drops, t.drops = append(t.drops, drops...), nil
	return batches, drops
}

// PlanBuffered is Plan for what no poll has brought yet. Nobody may poll until its outcome is told.
func (t *Table) PlanBuffered(now time.Duration) (batches [][]*Hold) {
	batches, _ = t.plan(now, func(h *Hold) bool { return h.stage == buffered }, buffered)
	return batches
}

func (t *Table) plan(now time.Duration, wanted func(*Hold) bool, of stage) (batches [][]*Hold, drops []*Hold) {
	var together, parted []*Hold
	for h := t.oldest; h != nil; h = h.next {
		switch {
		case (h.stage == buffered) != (of == buffered) || h.lapsed:
		case !h.fresh(now) && (!t.Last(h) || now >= h.Until): // a last one is renewed to the end
			drops = t.lapse(h, drops)
		case h.busy || now < h.retryAt || h.Until-now > h.Span*2/3 || !wanted(h):
		case h.most > 0:
			parted = append(parted, h)
		default:
			together = append(together, h)
		}
	}
	if len(together) > 0 {
		batches = append(batches, together)
	}
	batches = append(batches, cut(parted)...)
	for _, batch := range batches {
		for _, h := range batch {
			h.busy = true
		}
	}
	return batches, drops
}

// cut makes batches that have as many records of a partition as each of them allows.
func cut(parted []*Hold) (batches [][]*Hold) {
	type part struct{ at, n, most int } // the newest of a partition: in which batch it is, how many it has, and may have
	newest := map[string]part{}
	for _, h := range parted {
		p, begun := newest[h.Place]
		switch {
		case !begun:
			p.most = h.most
		case p.n >= min(p.most, h.most):
			p = part{at: p.at + 1, most: h.most}
		}
		p.n, p.most = p.n+1, min(p.most, h.most)
		if newest[h.Place] = p; p.at == len(batches) {
			batches = append(batches, nil)
		}
		batches[p.at] = append(batches[p.at], h)
	}
	return batches
}

// lapse notes that a record's lock is over, and that the engine is to let go of it, if it has it. One that comes no more stays: nobody
// else has it to decide it.
func (t *Table) lapse(h *Hold, drops []*Hold) []*Hold {
	h.lapsed = true
	switch {
	case t.Last(h) && h.stage != deciding:
	case h.stage == held && !h.dropped:
		h.dropped = true
		return append(drops, h)
	case h.stage == returning && !h.busy:
		t.remove(h)
	}
	return drops
}

// Outcome is how a renewal ended for a partition.
type Outcome uint8

// How a renewal can end.
const (
	Unknown Outcome = iota // it may be done, or not
	Renewed                // done, for all
	Refused                // not done, because of one of the records at least
)

// Renewed is told how the renewals of a batch ended that was sent at the given time, by partition; what is not named is unknown. It
// returns what is to be accepted, now that its renewal has ended, and what the engine is to let go of.
func (t *Table) Renewed(batch []*Hold, outcomes map[string]Outcome, sent, now time.Duration) (accepts, drops []*Hold) {
	of := map[string]int{}
	for _, h := range batch {
		of[h.Place]++
	}
	for _, h := range slices.Clone(batch) {
		moved := h.moved
		h.busy, h.moved = false, false
		switch o := outcomes[h.Place]; {
		case h.stage == gone:
			continue
		case moved, h.lapsed: // what is true of it was noted meanwhile
		case o == Renewed:
			h.Until, h.retryAt, h.most = max(h.Until, sent+h.Span), 0, 0
		case o == Refused && of[h.Place] == 1:
			drops = t.lapse(h, drops)
		case o == Refused:
			h.most = of[h.Place] / 2
		default: // the client may never send another one: an answer to others must not count as its own
			h.retryAt, h.most = now+max(h.Span/12, 50*time.Millisecond), 1
		}
		if h.stage == deciding {
			if t.remove(h); !h.lapsed {
				accepts = append(accepts, h)
			}
		}
	}
	return accepts, drops
}
