package sqs

import (
	"cmp"
	"slices"
	"time"
)

// change is one entry of a batch of visibility changes.
type change struct {
	h       *hold
	handle  string
	seconds int32
	final   bool // the message is handed back
}

// plan says what is to be done about visibility at this moment: at most n changes, and what the engine is to let go of,
// because it has lapsed since the last plan. live: this worker's lease holds; without it nothing that the engine holds is
// extended.
func (t *table) plan(now time.Time, live bool, n int) (changes []change, drops []*hold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lapsed []*hold
	for _, h := range t.holds {
		switch {
		case h.lapsed:
		case !t.fresh(h, now):
			if t.lapse(h) {
				lapsed = append(lapsed, h)
			}
		case h.busy || h.queued || now.Before(h.retryAt):
		case h.stage == returning && t.mayReturn(h):
			changes = append(changes, change{h, h.handle, t.returnAfter(h, now), true})
		case h.stage == held && !live:
		default:
			if seconds := t.extension(h, now); seconds > 0 {
				changes = append(changes, change{h, h.handle, seconds, false})
			}
		}
	}
	changes = t.choose(changes, max(n, 0))
	for _, c := range changes {
		c.h.busy = true
	}
	return changes, t.drop(lapsed)
}

// lapse notes that a message's visibility is over. It returns whether the engine has to be told.
func (t *table) lapse(h *hold) bool {
	h.lapsed = true
	if h.stage == returning && !h.busy {
		t.remove(h)
	}
	return h.stage == held
}

// mayReturn says whether a message may be handed back now. One that is to come back at once must not meet a poll of ours.
func (t *table) mayReturn(h *hold) bool { return h.again > 0 || t.pollsOver }

// returnAfter is the visibility with which a message is handed back, in seconds.
func (t *table) returnAfter(h *hold, now time.Time) int32 {
	return int32(min((h.again+time.Second-1)/time.Second, h.last.Sub(now)/time.Second))
}

// extension is the visibility to ask for, in seconds; 0: it is not time yet, or SQS would not extend it any more.
func (t *table) extension(h *hold, now time.Time) int32 {
	if h.until.Sub(now) > t.visibility*2/3 {
		return 0
	}
	d := min(t.visibility, h.last.Sub(now)).Truncate(time.Second)
	if gain := now.Add(d).Sub(h.until); gain <= t.visibility/6 {
		return 0
	}
	return int32(d / time.Second)
}

// choose takes the most urgent n changes. A FIFO queue's messages are handed back one batch after the other, the newest
// first: none comes into sight before an older one of its group is out of flight or in sight.
func (t *table) choose(all []change, n int) []change {
	slices.SortFunc(all, func(a, b change) int {
		if a.final != b.final {
			if a.final {
				return -1
			}
			return 1
		}
		if a.final {
			return cmp.Compare(b.h.seq, a.h.seq)
		}
		return a.h.until.Compare(b.h.until)
	})
	if t.fifo {
		finals := 0
		for finals < len(all) && all[finals].final {
			finals++
		}
		take := min(finals, maxBatch, n)
		if t.returns > 0 {
			take = 0
		}
		if take > 0 {
			t.returns++
		}
		all = slices.Delete(all, take, finals)
	}
	return all[:min(len(all), n)]
}

// outcome is how one change ended.
type outcome uint8

const (
	changed outcome = iota
	failed          // to be tried again
	refused         // the handle is of no use any more
)

// changed is told how a change ended that was sent at the given time. It returns what the engine is to let go of, because
// the message has lapsed.
func (t *table) changed(c change, o outcome, sent, now time.Time) (drops []*hold) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := c.h
	h.busy = false
	if h.handle != c.handle {
		o = failed // a newer copy came meanwhile: what is true of it, its receive has noted
	}
	switch {
	case o == refused:
		if !h.lapsed && t.lapse(h) {
			drops = t.drop([]*hold{h})
		}
	case o == failed:
		h.retryAt = now.Add(max(t.visibility/12, 100*time.Millisecond))
	case c.final:
		t.remove(h)
	case !h.lapsed:
		h.until = sent.Add(time.Duration(c.seconds) * time.Second)
	}
	if h.lapsed && h.stage == returning {
		t.remove(h)
	}
	t.queueDelete(h)
	return drops
}

// returned is told that a call of a FIFO queue that handed messages back has ended.
func (t *table) returned() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.returns--
}
