package locks

import (
	"slices"
	"time"
)

// Plan says which locks to renew now, in batches to be sent one after the other, and what the engine is to let go of, because it has
// lapsed since the last plan. live: this worker's lease holds; without it only records at their reserved deliveries are renewed,
// since the broker would give them up. The outcome of each batch is to be told to [Table.Renewed].
//
// What was refused together with others of its partition is renewed by itself, until it is: the broker refuses all for one.
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
	var together, alone []*Hold
	for h := t.oldest; h != nil; h = h.next {
		switch {
		case (h.stage == buffered) != (of == buffered) || h.lapsed:
		case !h.fresh(now) && (!t.Last(h) || now >= h.Until): // a last one is renewed to the end
			drops = t.lapse(h, drops)
		case h.busy || now < h.retryAt || h.Until-now > h.Span*2/3 || !wanted(h):
		case h.alone:
			alone = append(alone, h)
		default:
			together = append(together, h)
		}
	}
	if len(together) > 0 {
		batches = append(batches, together)
	}
	batches = append(batches, oneOfEach(alone)...)
	for _, batch := range batches {
		for _, h := range batch {
			h.busy = true
		}
	}
	return batches, drops
}

// oneOfEach makes batches that have one record of a partition each.
func oneOfEach(alone []*Hold) (batches [][]*Hold) {
	next := map[string]int{}
	for _, h := range alone {
		n := next[h.Place]
		if next[h.Place]++; n == len(batches) {
			batches = append(batches, nil)
		}
		batches[n] = append(batches[n], h)
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
	case h.stage == deciding && !h.busy, h.stage == returning && !h.busy:
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
			h.Until, h.retryAt, h.alone = max(h.Until, sent+h.Span), 0, false
		case o == Refused && of[h.Place] == 1:
			drops = t.lapse(h, drops)
		case o == Refused:
			h.alone = true
		default: // the client may never send another one: an answer to others must not count as its own
			h.retryAt, h.alone = now+max(h.Span/12, 50*time.Millisecond), true
		}
		if h.stage == deciding {
			if t.remove(h); !h.lapsed {
				accepts = append(accepts, h)
			}
		}
	}
	return accepts, drops
}
