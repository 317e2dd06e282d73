package model

import (
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/promises"
	"github.com/ackledger/ackledger/ledger"
)

// What is different where the ledger has no clock (Config.Watched): single conditional writes, each on one row, and nothing that looks at
// two rows at once.
//
// An owner's row has a beat. Each worker looks at the beats of the others, and whoever has seen the same one for a lease declares that
// owner dead, if the beat is still that and the owner live when the declaration arrives. Overdue says here what the owner's own process
// knows: that the lease is over which it counts from before the last beat that was confirmed. Clocks come in at one place alone: a lease
// by a watcher's clock ends after that of the owner by its own (driver.Watch), so a watcher has waited only when the owner is Overdue.
//
// A claim does not look at its owner's row. It has read the message's, and writes what it decided on the condition that this has the same
// state, owner and token (the token alone would let it overwrite the late success of an owner that is dead); so it may land at any time,
// of an owner that is dead, or whose row has gone. A settlement writes on its guard. A transaction of InTx is one request with the guard
// as its condition: nothing is locked, and it may land at any time as well.

// watchSteps are those of peers that watch an owner.
func (x *machine) watchSteps(o uint8) {
	s := x.from
	for w := range uint8(x.cfg.Workers) {
		p := &s.Workers[w]
		look := func(what uint8) func(*state) { return func(n *state) { n.Workers[w].Seen[o] = what } }
		switch {
		case p.Seen[o] == waited && s.Owners[o].Fate != gone:
			x.emit(opSeal, w, o, goes, func(n *state) { x.declare(n, w, o) })
		case !p.member() || p.Session == o+1 || s.Owners[o].Fate != live || x.calm && s.Owners[o].Overdue == 0:
		case p.Seen[o] == unseen:
			x.emit(opSee, w, o, goes, look(seen))
		case s.Owners[o].Overdue == 1 || x.off[WaitALease]:
			x.emit(opWait, w, o, goes, look(waited))
		}
	}
}

// declare is the arrival of a declaration whose condition holds: where it does not any more, what the watcher knew is forgotten.
func (x *machine) declare(n *state, w, o uint8) {
	n.Workers[w].Seen[o] = unseen
	if n.Owners[o].Fate == live {
		n.Deaths++
	}
	n.Owners[o].Fate = dead
	x.unsee(n, o, DeadWasLive)
}

// unsee forgets what watchers know of an owner that is not as they saw it: what they would declare would change nothing.
func (x *machine) unsee(n *state, o uint8, condition Guard) {
	for w := range n.Workers {
		if known := &n.Workers[w].Seen[o]; *known == seen || !x.off[condition] {
			*known = unseen
		}
	}
}

// watched says whether anybody knows an owner's beat.
func (s *state) watched(o uint8) bool {
	for w := range s.Workers {
		if s.Workers[w].Seen[o] != unseen {
			return true
		}
	}
	return false
}

// beatSteps are a live owner's beat. One that arrives late, or again, or whose answer is lost, has those who watch wait anew, and no more.
func (x *machine) beatSteps(w, o uint8) {
	x.emit(opBeat, w, o, goes, func(n *state) {
		n.Owners[o].Overdue = 0
		x.unsee(n, o, BeatUnchanged)
	})
	if x.cfg.Watched {
		x.fault(losses, opBeat, w, o, unanswered, func(n *state) { x.unsee(n, o, BeatUnchanged) })
	}
}

// isOver says whether a process knows that its own lease is over, and so throws away what its claim was answered.
func (x *machine) isOver(s *state, id uint8) bool {
	return x.cfg.Watched && s.Owners[id-1].Overdue == 1 && !x.off[AnswerInLease]
}

// land carries out a claim that was under way for long. What it writes was decided by the row that it has read.
func (x *machine) land(n *state, g *ghost) {
	r := &n.Rows[n.Copies[g.Copy].Message]
	is := *r
	moved := r.Token != g.Row.Token || r.State != g.Row.State || x.cfg.Watched && r.Owner != g.Row.Owner
	if g.Snapshot == 1 && moved && !x.off[MovedIsBusy] {
		return // whoever waits for it reads again
	}
	if x.cfg.Watched && g.Snapshot == 1 {
		*r = g.Row
	}
	d, _ := x.claimAs(n, g.Owner, g.Copy, g.Marks&suspect != 0)
	if !d.Write {
		*r = is
	}
	if g.Asked == 1 {
		x.hear(n, g, &d)
	}
}

// hear is the answer to a claim that was under way for long.
func (x *machine) hear(n *state, g *ghost, d *ledger.Decision) {
	for w := range uint8(x.cfg.Workers) {
		p := &n.Workers[w]
		if it := &p.Items[g.Copy]; !p.member() || p.Session != g.Owner || it.Phase != queued || it.Owner != g.Owner {
			continue
		}
		if x.isOver(n, g.Owner) {
			x.lose(n, w)
			return
		}
		x.answered(n, w, g.Copy, d)
	}
}

// mustLive checks an answer that its worker believes: to one that is declared dead, and does not know, it would be as if it lived.
func (x *machine) mustLive(n *state, id uint8, d *ledger.Decision) {
	if x.cfg.Watched && d.Answer == ledger.Run && n.Owners[id-1].Fate != live {
		x.broken = promises.OneOwner + ": one that is not live any more is told to run what it claimed"
	}
}

// requestSteps are the ways of a transaction that is one request.
func (x *machine) requestSteps(w, c uint8) {
	it := x.from.Workers[w].Items[c]
	reads := func(n *state) { n.Workers[w].Items[c].Phase = reading }
	commits := func(n *state) {
		e := engine.Ended{State: ledger.AttemptSucceeded}
		if !x.requestAs(n, w, it.Owner, c, it.Token) {
			e = engine.Ended{Err: ledger.ErrLost, State: ledger.AttemptLost}
		}
		x.follow(n, w, c, e)
	}
	x.emit(opCommit, w, c, goes, commits)
	x.fault(losses, opCommit, w, c, unanswered, func(n *state) {
		x.requestAs(n, w, it.Owner, c, it.Token)
		reads(n)
	})
	x.fault(losses, opCommit, w, c, unheard, reads)
	if x.from.Ghost.Kind == noGhost {
		x.fault(lates, opCommit, w, c, stalls, func(n *state) {
			n.Ghost = x.ghostOf(ghostFence, w, c, it.Owner)
			reads(n)
		})
		x.fault(lates, opCommit, w, c, repeats, func(n *state) {
			n.Ghost = x.ghostOf(ghostFence, w, c, it.Owner)
			commits(n)
		})
	}
}

// requestAgain sends a transaction once more whose answer was lost, effects and all: with the same token of the client it is the same. Only
// where its condition does not hold the row is read: nothing that is under way keeps it locked, and may commit yet.
func (x *machine) requestAgain(n *state, w, c uint8) bool {
	it := &n.Workers[w].Items[c]
	if x.off[RequestIsRepeated] || !x.requestAs(n, w, it.Owner, c, it.Token) {
		return false
	}
	x.follow(n, w, c, engine.Ended{State: ledger.AttemptSucceeded})
	return true
}

// requestAs carries out such a transaction.
func (x *machine) requestAs(s *state, w, id, c, token uint8) bool {
	ours := x.fenceAs(s, w, id, c, token)
	if ours {
		x.commitAs(s, s.Copies[c].Message)
	}
	return ours
}

// believes says whether a worker takes an owner for its own, and for live.
func (x *machine) believes(s *state, w, id uint8) bool {
	p := &s.Workers[w]
	return x.cfg.Watched && p.Session == id && p.Lost == 0 && s.Owners[id-1].Overdue == 0
}
