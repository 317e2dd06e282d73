package model

import (
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
)

// What is parked: a retry whose whole message lies beside its row. The ledger has a copy of its own of it, which no broker knows, and
// which it hands out when the row is due: to whoever looks, and to more than one.

// parks says whether what follows from a handler's end is to be parked: a retry of what comes from a broker, in a world that parks.
func (x *machine) parks(n *state, c uint8, v *engine.Next) bool {
	return x.cfg.Parks && v.Settle == ledger.Release && v.Count && n.Copies[c].Own == 0
}

// parkAs notes that the whole message of a copy lies beside its row.
func (x *machine) parkAs(s *state, c uint8) {
	if x.off[ParkKeepsWhole] {
		return
	}
	m := s.Copies[c].Message
	own := s.ownCopy(m)
	s.Rows[m].Parked = 1
	s.Copies[own].As, s.Copies[own].Other = c+1, s.Copies[c].Other
}

// ownCopy is the ledger's own copy of a message.
func (s *state) ownCopy(m uint8) uint8 {
	for c := range s.Next {
		if s.Copies[c].Own == inCare && s.Copies[c].Message == m {
			return c
		}
	}
	panic("model: a world that parks nothing")
}

// careSteps hand out what is due and in nobody's hands, to any worker that has it not.
func (x *machine) careSteps() {
	s := x.from
	for c := range s.Next {
		r := &s.Rows[s.Copies[c].Message]
		if s.Copies[c].Own != inCare || r.Parked == 0 || r.Waits == 1 || r.Owner != 0 && s.Owners[r.Owner-1].Fate == live {
			continue
		}
		for w := range uint8(x.cfg.Workers) {
			if p := &s.Workers[w]; p.member() && p.Items[c].Phase == none {
				x.emit(opTake, w, c, goes, func(n *state) { n.Workers[w].Items[c].Phase = queued })
			}
		}
	}
}

// delivery is the copy whose delivery a copy is: the ledger's own is that which was parked.
func (s *state) delivery(c uint8) uint8 {
	if as := s.Copies[c].As; s.Copies[c].Own == inCare && as != 0 {
		return as - 1
	}
	return c
}
