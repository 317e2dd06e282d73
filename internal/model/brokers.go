package model

// queueSteps are an SQS-like queue: whoever receives a copy has it for a while, and nothing is delivered exactly once.
func (x *machine) queueSteps() {
	s := x.from
	for c := range s.Next {
		switch s.Copies[c].Place {
		case waiting:
			x.receiveSteps(c)
			x.fault(moves, opMove, 0, c, goes, func(n *state) { x.move(n, c) })
		case flying:
			back := func(n *state) { n.Copies[c].Place = waiting }
			if s.knownUndropped(c) {
				x.fault(dups, opExpire, 0, c, goes, back)
			} else {
				x.emit(opLapse, 0, c, goes, back)
			}
		case deleted:
			if s.Copies[c].Own == 0 {
				x.fault(dups, opResurrect, 0, c, goes, func(n *state) { n.Copies[c].Place = waiting })
			}
		}
	}
}

// knownUndropped says whether a worker keeps a copy invisible.
func (s *state) knownUndropped(c uint8) bool {
	for w := range s.Workers {
		if it := &s.Workers[w].Items[c]; it.Phase != none && !it.is(dropped) {
			return true
		}
	}
	return false
}

func (x *machine) receiveSteps(c uint8) {
	for w := range uint8(x.cfg.Workers) {
		p := &x.from.Workers[w]
		if !p.member() || p.Items[c].Phase != none {
			continue
		}
		x.emit(opReceive, w, c, goes, func(n *state) {
			n.Copies[c].Place = flying
			n.Workers[w].Items[c].Phase = queued
		})
	}
}

// move is what a redrive policy does with a copy that was received too often: same id, no stamp of ours but what it had.
func (x *machine) move(n *state, c uint8) {
	for l := range n.Letters {
		if n.Letters[l].Used == 0 {
			o := &n.Copies[c]
			n.Letters[l] = letter{Used: 1, Message: o.Message, Token: o.Stamp, Other: o.Other, Moved: 1, Copy: c}
			o.Place = moved
			return
		}
	}
}

// groupSteps are a worker's part in a Kafka-like group with one partition.
func (x *machine) groupSteps(w uint8) {
	s := x.from
	p := &s.Workers[w]
	if p.Up == 0 {
		return
	}
	owns := s.Assigned == w+1
	if s.Assigned == 0 && p.member() && (p.Tracking == untracked || p.Tracking == stale) {
		x.emit(opAssign, w, 0, goes, func(n *state) {
			n.Assigned = w + 1
			q := &n.Workers[w]
			q.Tracking, q.Position, q.Known, q.Delivered, q.Finished = tracked, n.Offset, n.Offset, 0, 0
		})
	}
	switch {
	case p.Tracking == tracked && owns:
		x.fetchStep(w)
		x.offsetStep(w)
		x.fault(rebalances, opRevoke, w, 0, goes, func(n *state) {
			n.Workers[w].Tracking = closing
			x.dropAll(n, w)
		})
		x.fault(rebalances, opKick, w, 0, goes, func(n *state) { n.Assigned = 0 })
	case p.Tracking == tracked:
		x.emit(opLearn, w, 0, goes, func(n *state) {
			x.dropAll(n, w)
			x.discard(n, w)
		})
	case p.Tracking == closing:
		x.emit(opDiscard, w, 0, goes, func(n *state) {
			if v := x.prefix(n, w); owns && v > n.Workers[w].Known {
				n.Offset = v
			}
			if n.Assigned == w+1 {
				n.Assigned = 0
			}
			x.discard(n, w)
		})
	case p.Tracking == stale:
		x.offsetStep(w)
	}
}

func (x *machine) dropAll(n *state, w uint8) {
	for c := range n.Next {
		if n.Copies[c].Own == 0 {
			x.drop(n, w, c)
		}
	}
}

func (x *machine) discard(n *state, w uint8) {
	p := &n.Workers[w]
	if x.off[DiscardTracker] {
		p.Tracking = stale
		return
	}
	p.Tracking, p.Position, p.Known, p.Delivered, p.Finished = untracked, 0, 0, 0, 0
}

// fetchStep delivers the next record. A record of which an earlier assignment still has an item waits for that, as the key
// in hand would.
func (x *machine) fetchStep(w uint8) {
	s := x.from
	p := &s.Workers[w]
	c := p.Position
	for c < s.Next && !s.inLog(c) {
		c++
	}
	if c >= s.Next || p.Items[c].Phase != none || !p.member() {
		return
	}
	x.emit(opFetch, w, c, goes, func(n *state) {
		q := &n.Workers[w]
		q.Position, q.Delivered = c+1, q.Delivered|1<<c
		q.Items[c].Phase = queued
	})
}

// offsetStep commits what is finished, if that is news.
func (x *machine) offsetStep(w uint8) {
	v := x.prefix(x.from, w)
	if v <= x.from.Workers[w].Known {
		return
	}
	x.emit(opOffset, w, v, goes, func(n *state) { n.Offset, n.Workers[w].Known = v, v })
}

// prefix is the offset that a worker may commit: one past the last of the finished prefix of what was delivered.
func (x *machine) prefix(s *state, w uint8) uint8 {
	p := &s.Workers[w]
	v := p.Known
	for c := p.Known; c < p.Position; c++ {
		if p.Delivered&(1<<c) == 0 {
			continue
		}
		if p.Finished&(1<<c) != 0 {
			v = c + 1
		} else if !x.off[FinishedPrefix] {
			return v
		}
	}
	return v
}
