package flow

import "time"

// addRange takes a range in.
func (s *sched) addRange(r *Range) {
	s.held += r.Len
	s.bytes.AddAll(r.bytes)
	l := s.logs.of(r.log)
	l.ranges = append(l.ranges, r)
}

// aheadOfRanges counts records of ranges that are claimed ahead, which keep no single ones from that: they are claimed farther ahead.
func (s *sched) aheadOfRanges(n int) {
	s.ahead += n
	s.ranged += n
}

// dropRange lets go of a range.
func (s *sched) dropRange(r *Range) {
	if r.phase == claiming || r.phase == claimed {
		s.aheadOfRanges(r.next - r.Len)
	}
	if r.phase == claiming {
		s.logs[r.log].claiming--
	}
	r.whole = false
	s.held -= r.Len
	s.bytes.AddAll(-r.bytes)
	s.logs.drop(r)
}

// mayRun queues what may run now of a log's ranges: of ordered ones the first that is not over.
func (s *sched) mayRun(log string) {
	l := s.logs[log]
	if l == nil {
		return
	}
	for _, r := range l.ranges {
		if r.phase == settling {
			continue
		}
		if r.phase == claimed && r.dispatch == nil && !r.listed {
			r.listed = true
			s.rangeReady.push(r)
		}
		if r.Ordered {
			return
		}
	}
}

// popPart takes up to n records of the next range that may run; none: there is none. Those that run together are as many
// as in the pieces that follow. The range stays listed until Begin has them.
func (s *sched) popPart(n int, together bool) (p Part) {
	for s.rangeReady.len() > 0 {
		r := s.rangeReady.pop()
		if !r.whole || r.phase != claimed {
			continue
		}
		p = Part{r, r.next, r.next}
		if together {
			left := r.Len - r.next
			pieces := (left + n - 1) / n
			p.To += (left + pieces - 1) / pieces
			return p
		}
		for bytes := int64(0); p.To < r.Len && p.To-p.From < n && bytes < dispatchBytes; p.To++ {
			bytes += r.Records.Size(p.To)
		}
		return p
	}
	return p
}

// claimableRanges is how many records ranges have that may be claimed.
func (s *sched) claimableRanges() (n int) {
	for _, r := range s.rangeQ.buf[s.rangeQ.head:] {
		if r.whole && s.logs[r.log].claimable() {
			n += r.Len
		}
	}
	return n
}

// takeRanges moves queued ranges to claiming, up to about n records and at least one range, and appends them to
// out.
func (s *sched) takeRanges(n int, out []*Range) []*Range {
	s.rangeQ.filter(func(r *Range) bool {
		switch {
		case !r.whole:
			return false
		case n <= 0 || !s.logs[r.log].claimable():
			return true
		}
		s.aheadOfRanges(r.Len)
		n -= r.Len
		out = append(out, r)
		return false
	})
	for _, r := range out {
		s.logs[r.log].claiming++
		r.phase = claiming
	}
	return out
}

// Bounds of what a handler's goroutine takes at once. Taking costs a lock, so fast handlers take many; what they take waits
// for each other, so a dispatch is worth a short time of work, and keeps few bytes alive.
const (
	dispatchTime  = 200 * time.Microsecond
	dispatchItems = 68        // their runs and messages are small enough for the allocator not to make spans of memory of their own for them
	dispatchBytes = 128 << 10 // of Item.Size
	// spread is how slow a handler has to be for its messages to go to as many goroutines as are idle.
	spread = 10 * time.Microsecond
	// batchSpread is the same of one call of a batch handler.
	batchSpread = 20 * time.Millisecond
)
