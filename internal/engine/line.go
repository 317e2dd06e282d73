package engine

import "slices"

// logLine is what the engine has in hand of one log, of all its leader epochs: a partition has one order. As long as there
// are items, no stretch is claimed, ours or running: so no item's key is in such a stretch, and order is a matter of the
// items' lanes, or of whole stretches, but not of both.
type logLine struct {
	log       string
	items     int        // of the log, or with a key that lies in it
	stalled   int        // items that wait
	stretches []*Stretch // in the order in which they were offered
	claiming  int        // of them, those that are being claimed
	round     uint64     // of takeDone, in which
	taken     int        // so many of the first of them were taken
}

// flows says whether stretches that are not over stand before the newest.
func (l *logLine) flows() bool {
	return len(l.stretches) > 1 && l.stretches[len(l.stretches)-2].phase != settling
}

// nextDone says whether a stretch is the next to be settled: all before it were taken in the same round.
func (l *logLine) nextDone(st *Stretch, round uint64) bool {
	if l.round != round {
		l.round, l.taken = round, 0
	}
	if l.stretches[l.taken] != st {
		return false
	}
	l.taken++
	return true
}

// line finds or begins the line of a log.
func (s *sched) line(log string) *logLine {
	l := s.lines[log]
	if l == nil {
		l = &logLine{log: log}
		s.lines[log] = l
	}
	return l
}

// logs are the logs of an item: that in whose order it is, and that in which its key lies, if it is another; empty: none.
func (it *Item) logs() (order, key string) {
	if it.Key.Pos != nil {
		key = it.Key.Pos.Log
	}
	if it.Log == "" || it.Log == key {
		return key, ""
	}
	return it.Log, key
}

// joinLines takes an item into the lines of its logs.
func (s *sched) joinLines(it *Item) {
	order, key := it.logs()
	if order != "" {
		it.line = s.line(order)
		it.line.items++
	}
	if key != "" {
		s.line(key).items++
	}
}

func (s *sched) leaveLines(it *Item) {
	if it.line == nil {
		return
	}
	it.line.items--
	s.endLine(it.line)
	it.line = nil
	if _, key := it.logs(); key != "" {
		l := s.lines[key]
		l.items--
		s.endLine(l)
	}
}

// stall counts an item that waits, in the lines in which it is.
func (s *sched) stall(it *Item, n int) {
	if it.line == nil {
		return
	}
	it.line.stalled += n
	if _, key := it.logs(); key != "" {
		s.lines[key].stalled += n
	}
}

func (s *sched) endLine(l *logLine) {
	if l.items == 0 && len(l.stretches) == 0 {
		delete(s.lines, l.log)
	}
}

// addStretch takes a stretch in.
func (s *sched) addStretch(st *Stretch) {
	s.held += st.n
	s.bytes.AddAll(st.bytes)
	l := s.line(st.log)
	l.stretches = append(l.stretches, st)
}

// dropStretch lets go of a stretch.
func (s *sched) dropStretch(st *Stretch) {
	if st.phase == claiming || st.phase == claimed {
		s.ahead -= st.n - st.next
	}
	if st.phase == claiming {
		s.lines[st.log].claiming--
	}
	st.whole = false
	s.held -= st.n
	s.bytes.AddAll(-st.bytes)
	s.leaveLine(st)
}

// leaveLine takes a stretch out of its log's line.
func (s *sched) leaveLine(st *Stretch) {
	l := s.lines[st.log]
	l.stretches = slices.DeleteFunc(l.stretches, func(o *Stretch) bool { return o == st })
	s.endLine(l)
}

// mayRun queues what may run now of a log's stretches: of ordered ones the first that is not over.
func (s *sched) mayRun(log string) {
	l := s.lines[log]
	if l == nil {
		return
	}
	for _, st := range l.stretches {
		if st.phase == settling {
			continue
		}
		if st.phase == claimed && st.chunk == nil && !st.listed {
			st.listed = true
			s.stretchReady.push(st)
		}
		if st.Ordered {
			return
		}
	}
}

// piece is records of a stretch that run next.
type piece struct {
	of       *Stretch
	from, to int
}

// popPiece takes up to n records of the next stretch that may run; none: there is none. Those that run together are as many
// as in the pieces that follow. The stretch stays listed until takePiece has them.
func (s *sched) popPiece(n int, together bool) (p piece) {
	for s.stretchReady.len() > 0 {
		st := s.stretchReady.pop()
		if !st.whole || st.phase != claimed {
			continue
		}
		p = piece{st, st.next, st.next}
		if together {
			left := st.n - st.next
			pieces := (left + n - 1) / n
			p.to += (left + pieces - 1) / pieces
			return p
		}
		for bytes := int64(0); p.to < st.n && p.to-p.from < n && bytes < chunkBytes; p.to++ {
			bytes += st.Records.Size(p.to)
		}
		return p
	}
	return p
}

// claimable says whether a stretch may be claimed: nothing else is in hand of its log but stretches that are ours, or go into
// the same call. The ledger takes one claim of a log at a time, and another would wait for it with all that it asks for.
func (l *logLine) claimable() bool { return l.items == 0 && l.claiming == 0 }

// claimableStretches is how many records stretches have that may be claimed.
func (s *sched) claimableStretches() (n int) {
	for i := s.stretchQ.head; i < len(s.stretchQ.buf); i++ {
		if st := s.stretchQ.buf[i]; st.whole && s.lines[st.log].claimable() {
			n += st.n
		}
	}
	return n
}

// takeStretches moves queued stretches to claiming, up to about n records and at least one stretch, and appends them to
// out.
func (s *sched) takeStretches(n int, out []*Stretch) []*Stretch {
	s.stretchQ.filter(func(st *Stretch) bool {
		switch {
		case !st.whole:
			return false
		case n <= 0 || !s.lines[st.log].claimable():
			return true
		}
		s.ahead += st.n
		n -= st.n
		out = append(out, st)
		return false
	})
	for _, st := range out {
		s.lines[st.log].claiming++
		st.phase = claiming
	}
	return out
}
