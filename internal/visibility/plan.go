package visibility

import (
	"cmp"
	"slices"
	"time"
)

// Change is one entry of a batch of visibility changes.
type Change struct {
	Hold    *Hold
	Handle  string
	Seconds int32 // the visibility timeout to set
	Back    bool  // the message is handed back
}

// Plan says what is to be done about visibility now: batches of changes, at most as many as requests are free, and what the
// engine is to let go of, because it has lapsed since the last plan. live: this worker's lease holds; without it nothing that
// the engine holds is extended. The outcome of each batch is to be told to [Table.Changed].
func (t *Table) Plan(now time.Duration, live bool, requests int) (batches [][]Change, drops []*Hold) {
	var lapsed []*Hold
	var returns, extensions []Change
	for h := t.newest; h != nil; {
		older := h.prev // h may be removed
		switch {
		case h.lapsed:
		case !t.fresh(h, now):
			if t.lapse(h) {
				lapsed = append(lapsed, h)
			}
		case h.busy || h.queued || now < h.retryAt:
		case h.stage == returning && (t.pollsOver || t.returnAfter(h, now) > 0): // at once, it would come back to a poll of ours
			returns = append(returns, Change{h, h.Handle, t.returnAfter(h, now), true})
		case h.stage == held && !live:
		default:
			if seconds := t.extension(h, now); seconds > 0 {
				extensions = append(extensions, Change{h, h.Handle, seconds, false})
			}
		}
		h = older
	}
	return t.choose(returns, extensions, requests), t.drop(lapsed)
}

// returnAfter is the visibility with which a message is handed back, in seconds.
func (t *Table) returnAfter(h *Hold, now time.Duration) int32 {
	return int32(min((h.again+time.Second-1)/time.Second, (h.last-now)/time.Second))
}

// extension is the visibility to ask for, in seconds; 0: it is not time yet, or SQS would not extend it any more.
func (t *Table) extension(h *Hold, now time.Duration) int32 {
	if h.until-now > t.visibility*2/3 {
		return 0
	}
	seconds := min(t.visibility, h.last-now) / time.Second
	if gain := now + seconds*time.Second - h.until; gain <= t.visibility/6 {
		return 0
	}
	return int32(seconds)
}

// choose makes batches: of what is handed back first, then of extensions, the most urgent first. A FIFO queue's messages are
// handed back one batch after the other, the newest first: none comes into sight before an older one of its group is out of
// flight or in sight.
func (t *Table) choose(returns, extensions []Change, requests int) (batches [][]Change) {
	if t.fifo && t.handingBack {
		returns = nil
	} else if t.fifo {
		returns = returns[:min(len(returns), MaxBatch)]
	}
	slices.SortStableFunc(extensions, func(a, b Change) int { return cmp.Compare(a.Hold.until, b.Hold.until) })
	batches = slices.AppendSeq(batches, slices.Chunk(returns, MaxBatch))
	batches = slices.AppendSeq(batches, slices.Chunk(extensions, MaxBatch))
	batches = batches[:min(len(batches), requests)]
	for _, batch := range batches {
		t.handingBack = t.handingBack || t.fifo && batch[0].Back
		for _, c := range batch {
			c.Hold.busy = true
		}
	}
	return batches
}

// Outcome is how one change ended.
type Outcome uint8

// How a change can end.
const (
	Unknown Outcome = iota // it may be done, or not
	Failed                 // it is not done
	Changed                // done
	Refused                // the handle is of no use any more
)

// Changed is told how the changes of a batch ended that was sent at the given time. It returns what the engine is to let go of,
// because messages have lapsed.
func (t *Table) Changed(batch []Change, outcomes []Outcome, sent, now time.Duration) (drops []*Hold) {
	var lapsed []*Hold
	for i, c := range batch {
		if t.changed(c, outcomes[i], sent, now) {
			lapsed = append(lapsed, c.Hold)
		}
	}
	if batch[0].Back {
		t.handingBack = false
	}
	return t.drop(lapsed)
}

// changed returns whether the engine has to be told that the message has lapsed.
func (t *Table) changed(c Change, o Outcome, sent, now time.Duration) (tell bool) {
	h := c.Hold
	h.busy = false
	until := sent + time.Duration(c.Seconds)*time.Second
	switch {
	case h.Handle != c.Handle:
		o = Failed // a newer copy came meanwhile: what is true of it, its receive has noted
	case o == Unknown:
		h.until = min(h.until, until) // what may be handed back already is not hidden for longer by its handle
	}
	switch {
	case o == Refused:
		tell = !h.lapsed && t.lapse(h)
	case o != Changed:
		h.retryAt = now + max(t.visibility/12, 100*time.Millisecond)
	case c.Back:
		t.remove(h)
	case !h.lapsed:
		h.until = until
	}
	if h.lapsed && h.stage == returning {
		t.remove(h)
	}
	t.queueDelete(h)
	return tell
}
