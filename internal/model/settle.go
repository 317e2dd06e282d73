package model

import (
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/promises"
	"github.com/ackledger/ackledger/ledger"
)

// fence is the last statement of a handler's transaction.
func (x *machine) fence(n *state, w, c uint8) {
	it := &n.Workers[w].Items[c]
	if x.cfg.Watched || x.fenceAs(n, w, it.Owner, c, it.Token) { // where it is one request, it goes with the COMMIT
		it.Phase = fenced
		return
	}
	if x.off[FenceFirst] {
		n.Effects[n.Copies[c].Message]++ // COMMIT was on its way already
	}
	x.follow(n, w, c, engine.Ended{Err: ledger.ErrLost, State: ledger.AttemptLost})
}

// commitSteps are the ways of a COMMIT.
func (x *machine) commitSteps(w, c uint8) {
	if x.cfg.Watched {
		x.requestSteps(w, c)
		return
	}
	m := x.from.Copies[c].Message
	if x.from.Rows[m].Lock != w+1 { // the server has broken it off
		x.emit(opCommit, w, c, rollsBack, func(n *state) { n.Workers[w].Items[c].Phase = reading })
		return
	}
	unknown := func(n *state) { n.Workers[w].Items[c].Phase = reading }
	x.emit(opCommit, w, c, goes, func(n *state) {
		x.commitAs(n, m)
		x.follow(n, w, c, engine.Ended{State: ledger.AttemptSucceeded})
	})
	x.fault(losses, opCommit, w, c, unanswered, func(n *state) {
		x.commitAs(n, m)
		unknown(n)
	})
	x.fault(losses, opCommit, w, c, unheard, func(n *state) {
		n.Rows[m].Lock = 0
		unknown(n)
	})
	x.fault(lates, opCommit, w, c, hangs, func(n *state) {
		n.Rows[m].Sent = 1
		unknown(n)
	})
	if x.kinds[m] != Flaky {
		return
	}
	x.fault(lates, opCommit, w, c, leaves, func(n *state) {
		n.Rows[m].Sent = 1
		n.Fails[m]++
		x.follow(n, w, c, engine.Ended{Err: errLeft, State: ledger.AttemptRunning})
	})
}

// read asks, under the row's lock, what became of a COMMIT.
func (x *machine) read(n *state, w, c uint8) {
	it := &n.Workers[w].Items[c]
	if x.off[UnknownIsOnlyRead] {
		x.settle(it, ledger.Succeed, 0)
		return
	}
	if x.cfg.Watched && x.requestAgain(n, w, c) {
		return
	}
	ticket := ledger.NewTicket([ledger.KeySize]byte{}, uint64(it.Token))
	state := ledger.DecideCommit([]ledger.Ticket{ticket}, func(int) *ledger.Row {
		seen, ok := x.see(n, it.Owner, c)
		if !ok || seen.Unseen {
			return nil
		}
		return &seen
	})
	e := engine.Ended{State: state}
	if n.Ghost.Kind == ghostFence && n.Ghost.Copy == c && n.Ghost.Token == it.Token && state == ledger.AttemptOpen {
		x.broken = promises.EffectsOnce + ": a transaction is said to be rolled back that may yet commit"
	}
	if state != ledger.AttemptSucceeded {
		e.Err, e.Outage = errOutage, true
	}
	x.follow(n, w, c, e)
}

// settleSteps carry out a settlement, and repeat it until it is answered.
func (x *machine) settleSteps(w, c uint8) {
	s := x.from
	it := s.Workers[w].Items[c]
	if s.Rows[s.Copies[c].Message].Lock == 0 || it.is(mismatch) {
		x.emit(opSettle, w, c, goes, func(n *state) {
			effect := x.settleAs(n, it.Owner, c, it.Token, it.Kind, it.Marks)
			x.settled(n, w, c, effect)
		})
		x.fault(losses, opSettle, w, c, unanswered, func(n *state) {
			x.settleAs(n, it.Owner, c, it.Token, it.Kind, it.Marks)
		})
	}
	if x.off[SettleBeforeAck] && s.Copies[c].Place == flying {
		x.emit(opAck, w, c, goes, func(n *state) { n.Copies[c].Place = deleted })
	}
	if s.Ghost.Kind != noGhost {
		return
	}
	g := x.ghostOf(ghostSettle, w, c, it.Owner)
	x.fault(lates, opSettle, w, c, stalls, func(n *state) { n.Ghost = g })
	if x.off[Deadline] {
		x.fault(losses, opSettle, w, c, unheard, func(n *state) { n.Ghost = g })
	}
	if s.Left[lates] > 0 {
		x.fault(crashes, opCrash, w, c, stalls, func(n *state) {
			n.Left[lates]--
			x.die(n, w)
			n.Ghost = g
		})
	}
}

// settled does what the answer says.
func (x *machine) settled(n *state, w, c uint8, effect ledger.Effect) {
	it := &n.Workers[w].Items[c]
	kind := ledger.SettleKind(it.Kind)
	switch {
	case effect != ledger.EffectLost && kind != ledger.Release:
		x.finish(n, w, c)
	case it.is(dropped), n.Copies[c].Own == inCare:
		*it = item{}
	default: // released, or lost: asked for again
		*it = item{Phase: queued, Marks: it.Marks & suspect}
	}
}

// finish is the verdict to acknowledge.
func (x *machine) finish(n *state, w, c uint8) {
	p := &n.Workers[w]
	it := &p.Items[c]
	was := *it
	*it = item{}
	if n.Copies[c].Own != 0 {
		return
	}
	if x.cfg.Broker == Log {
		if p.Tracking != untracked && (!was.is(dropped) || x.off[DiscardTracker]) {
			p.Finished |= 1 << c
		}
		return
	}
	if !was.is(dropped) {
		it.Phase = acking
	}
}

// drop lets go of an item as far as that can be done at once: the broker has the copy back.
func (x *machine) drop(n *state, w, c uint8) {
	it := &n.Workers[w].Items[c]
	switch {
	case it.Phase == none || it.is(dropped) || it.Phase == acking:
	case it.is(maybe) && !x.off[NeverForget]:
		it.Marks |= dropped
	case it.Phase == queued:
		*it = item{}
	case it.Phase == claimed:
		it.Marks |= dropped
		x.settle(it, ledger.Release, 0)
	default:
		it.Marks |= dropped
	}
}

// published makes a dead letter. One that finds no room counts as not published.
func (x *machine) published(n *state, w, c uint8) {
	it := &n.Workers[w].Items[c]
	it.Phase = settling
	for l := range n.Letters {
		if n.Letters[l].Used == 1 {
			continue
		}
		n.Letters[l] = letter{Used: 1, Message: n.Copies[c].Message, Token: it.Token, Other: n.Copies[c].Other, Copy: c}
		if it.is(mismatch) {
			n.Letters[l].Token = 0
		}
		return
	}
}
