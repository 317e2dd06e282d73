package model

import (
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
)

// fromArchive marks the number of a replayer's letter as that of an archived copy.
const fromArchive = 128

// replaySteps are one replay: it looks at a letter and its row, then sends or drops, then removes; each a step of its own,
// and it may be killed between any two.
func (x *machine) replaySteps(r uint8) {
	p := x.from.Replays[r]
	if p.Stage != idle {
		x.add(step{opKillReplay, r, p.Number, goes}, true, func(n *state) { n.Replays[r] = replayer{} })
	}
	switch p.Stage {
	case idle:
		x.lookSteps(r)
	case toSend:
		x.sendSteps(r, p)
	case inHands:
		if x.from.known(p.Copy) {
			return
		}
		x.emit(opSend, r, p.Number, unanswered, func(n *state) {
			if n.Replays[r] = (replayer{}); n.terminal(p.Letter.Message) {
				n.Replays[r] = replayer{Stage: toDrop, Number: p.Number, Letter: p.Letter}
			}
		})
	case toDrop:
		x.emit(opRemove, r, p.Number, goes, func(n *state) {
			x.remove(n, &p)
			n.Replays[r] = replayer{}
		})
	}
}

// remove takes a letter from its source, if it is still that one.
func (x *machine) remove(n *state, p *replayer) {
	if p.Number < fromArchive && !x.cfg.Topic && n.Letters[p.Number] == p.Letter {
		n.Letters[p.Number] = letter{}
	}
}

// lookSteps decide about any of the letters.
func (x *machine) lookSteps(r uint8) {
	s := x.from
	if x.cfg.FromArchive || x.calm { // what was begun again after it failed, and cut short, perhaps only the archive has
		for c := range s.Next {
			if s.Archive[c] != 0 && s.Archive[c] != mismatched {
				x.look(r, fromArchive+c, letter{Message: s.Copies[c].Message, Token: s.Archive[c], Other: s.Copies[c].Other, Copy: c})
			}
		}
	}
	if x.cfg.FromArchive {
		return
	}
	for l := range uint8(maxLetters) {
		if s.Letters[l].Used == 1 {
			x.look(r, l, s.Letters[l])
		}
	}
}

// look asks for the row, and plans.
func (x *machine) look(r, number uint8, l letter) {
	s := x.from
	row := &s.Rows[l.Message]
	if x.calm && s.terminal(l.Message) {
		return // what is failed may stay so
	}
	status := x.status(row)
	byBroker := l.Token == 0 // which moved it
	d := replay.Plan(replay.Case{
		Identified: true, Archived: number >= fromArchive, Superseded: number >= fromArchive && x.superseded(l),
		Vouched: number >= fromArchive || byBroker || status.Fingerprint == bodyOf(l.Other),
		Token:   uint64(l.Token), Fingerprint: bodyOf(l.Other), Status: status,
	})
	switch {
	case x.off[LookUp]:
		d = replay.Decision{Step: replay.Send, Token: uint64(l.Token)}
	case d.Reason == replay.Abandoned && x.off[AbandonedIsListed]:
		return
	}
	next := replayer{Number: number, Letter: l, Token: uint8(d.Token)}
	switch d.Step {
	case replay.Send:
		next.Stage = toSend
		if row.State == ledger.Failed {
			next.For = row.Token
		}
	case replay.Drop:
		if number >= fromArchive || x.cfg.Topic {
			return // nothing is removed there
		}
		next.Stage = toDrop
	default:
		return
	}
	x.emit(opLook, r, number, goes, func(n *state) {
		n.Replays[r] = next
		if next.Stage == toSend && x.off[SendBeforeDelete] {
			x.remove(n, &next)
		}
	})
}

// superseded says whether a later failure of a letter's message is archived.
func (x *machine) superseded(l letter) bool {
	for c := range x.from.Next {
		a := x.from.Archive[c]
		if a != mismatched && a > l.Token && x.from.Copies[c].Message == l.Message {
			return true
		}
	}
	return false
}

// status is how an operator sees a row.
func (x *machine) status(r *row) ledger.Status {
	if r.State == 0 {
		return ledger.Status{}
	}
	s := ledger.Status{State: r.State, Token: uint64(r.Token), Fingerprint: bodyOf(r.Other)}
	if r.Waits == 1 {
		s.DueIn = time.Second
	}
	if r.Owner != 0 {
		switch o := x.from.Owners[r.Owner-1]; {
		case o.Fate == left, o.Fate == gone && x.cfg.Watched:
			s.Holder = ledger.Left
		case o.Fate == dead:
			s.Holder = ledger.Dead
		case o.Overdue == 1:
			s.Holder = ledger.Live
		default:
			s.Holder, s.HeldFor = ledger.Live, time.Second
		}
	}
	return s
}

// sendSteps send a copy of the letter, or hand it to a worker's handler.
func (x *machine) sendSteps(r uint8, p replayer) {
	s := x.from
	l := p.Letter
	if x.calm && s.terminal(l.Message) {
		// Finished since it looked: recovery needs no copy, and has no room for all that could be sent. The replay begins anew.
		x.emit(opSend, r, p.Number, unheard, func(n *state) { n.Replays[r] = replayer{} })
		return
	}
	c := x.room()
	if c >= maxCopies || !x.calm && c >= maxCopies-spareCopies {
		return
	}
	send := func(n *state, place uint8) {
		n.Next = max(n.Next, c+1)
		n.Copies[c] = copied{Message: l.Message, Other: l.Other, Place: place, Stamp: p.Token, For: p.For}
		if x.off[StampCarriesToken] {
			n.Copies[c].Stamp = 0
		}
		if n.Replays[r] = (replayer{Stage: toDrop, Number: p.Number, Letter: l}); x.cfg.InPlace {
			n.Replays[r].Stage, n.Replays[r].Copy = inHands, c
		}
	}
	if !x.cfg.InPlace {
		x.emit(opSend, r, p.Number, goes, func(n *state) { send(n, waiting) })
		return
	}
	for w := range uint8(x.cfg.Workers) {
		if s.Workers[w].member() {
			x.emit(opSend, r, p.Number, w+10, func(n *state) {
				send(n, inPlace)
				n.Copies[c].Own = 1
				n.Workers[w].Items[c].Phase = queued
			})
		}
	}
}

// room is the number for another copy: the next one, or that of a delivery in place which left no trace.
func (x *machine) room() uint8 {
	s := x.from
	for c := range s.Next {
		if s.Copies[c].Own == 1 && s.Archive[c] == 0 && !s.known(c) && !s.awaited(c) && (s.Ghost.Kind == noGhost || s.Ghost.Copy != c) && x.cfg.InPlace {
			return c
		}
	}
	return s.Next
}

// awaited says whether a replay waits for what becomes of a copy.
func (s *state) awaited(c uint8) bool {
	for r := range s.Replays {
		if s.Replays[r].Stage == inHands && s.Replays[r].Copy == c {
			return true
		}
	}
	return false
}
