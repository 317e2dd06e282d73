package model

import (
	"context"
	"errors"

	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/internal/promises"
	"github.com/ackledger/ackledger/ledger"
)

var (
	errHandler = errors.New("the handler failed")
	errLeft    = errors.New("the handler returned while its transaction ran on")
	errOutage  = errors.New("the connection is gone")
)

// itemSteps are what a worker may do next with a message that it has in hand.
func (x *machine) itemSteps(w, c uint8) {
	p := &x.from.Workers[w]
	it := &p.Items[c]
	switch it.Phase {
	case queued:
		x.claimSteps(w, c)
	case claimed:
		if p.member() && p.Session == it.Owner {
			x.emit(opStart, w, c, goes, func(n *state) { n.Workers[w].Items[c].Phase = running })
		}
	case running:
		x.runSteps(w, c)
	case fenced:
		x.commitSteps(w, c)
	case reading:
		x.emit(opRead, w, c, goes, func(n *state) { x.read(n, w, c) })
	case publish:
		x.emit(opPublish, w, c, goes, func(n *state) { x.published(n, w, c) })
		x.fault(failures, opPublish, w, c, fails, func(n *state) { n.Workers[w].Items[c].Phase = settling })
	case settling:
		x.settleSteps(w, c)
	case acking:
		x.emit(opAck, w, c, goes, func(n *state) {
			n.Copies[c].Place = deleted
			n.Workers[w].Items[c] = item{}
		})
		x.fault(losses, opAck, w, c, unheard, func(n *state) { n.Workers[w].Items[c] = item{} })
	}
	if !it.is(dropped) && it.Phase != acking && x.from.Copies[c].Own == 0 && x.cfg.Broker == Queue {
		x.fault(dups, opLetGo, w, c, goes, func(n *state) { x.drop(n, w, c) }) // its handle has expired
	}
}

// claimSteps ask for a message: at once alone if it is suspect, and never twice at a time.
func (x *machine) claimSteps(w, c uint8) {
	p := &x.from.Workers[w]
	it := &p.Items[c]
	if !p.member() || x.inHand(p, c) || x.awaits(p, c) {
		return
	}
	id, solo := p.Session, it.is(suspect) || it.is(dropped) && x.off[OwnPlaceOnly]
	asks := func(n *state) {
		d, lost := x.claimAs(n, id, c, solo)
		if lost || x.isOver(n, id) {
			x.lose(n, w)
			return
		}
		x.answered(n, w, c, &d)
	}
	x.emit(opClaim, w, c, goes, asks)
	doubt := func(n *state) {
		i := &n.Workers[w].Items[c]
		i.Owner, i.Marks = id, i.Marks|maybe
	}
	g := x.ghostOf(ghostClaim, w, c, id)
	x.fault(losses, opClaim, w, c, unheard, func(n *state) {
		doubt(n)
		if x.off[Deadline] && n.Ghost.Kind == noGhost {
			n.Ghost = g
		}
	})
	x.fault(losses, opClaim, w, c, unanswered, func(n *state) {
		x.claimAs(n, id, c, solo)
		doubt(n)
	})
	if x.from.Ghost.Kind == noGhost && x.wouldTake(id, c, solo) {
		g.Snapshot = 1
		x.fault(lates, opClaim, w, c, stalls, func(n *state) {
			doubt(n)
			n.Ghost = g
		})
		if x.cfg.Watched {
			x.fault(lates, opClaim, w, c, hangs, func(n *state) {
				doubt(n)
				n.Ghost = g
				n.Ghost.Asked = 1
			})
			x.fault(lates, opClaim, w, c, repeats, func(n *state) {
				n.Ghost = g
				asks(n)
			})
		}
	}
}

// awaits says whether a worker waits for an answer about a copy, or, without a clock of the ledger's, asks nothing any more: it reads the
// row only while its own lease runs.
func (x *machine) awaits(p *worker, c uint8) bool {
	g := &x.from.Ghost
	over := x.cfg.Watched && x.from.Owners[p.Session-1].Overdue == 1 && !x.off[AskInLease]
	return over || g.Kind == ghostClaim && g.Asked == 1 && g.Owner == p.Session && g.Copy == c
}

// wouldTake says whether a claim of this moment would take the message. One that stalls decides by what it has seen of
// owners and of the clock, and by the row as it then is.
func (x *machine) wouldTake(id, c uint8, solo bool) bool {
	n := *x.from
	d, lost := x.claimAs(&n, id, c, solo)
	x.broken = ""
	return d.Write && !lost
}

// inHand says whether the message of a copy may be ours already, or has to wait for the place of another suspect.
func (x *machine) inHand(p *worker, c uint8) bool {
	for d := range p.Items {
		other := &p.Items[d]
		if uint8(d) == c || other.Phase == none || other.Phase == acking {
			continue
		}
		same := x.from.Copies[d].Message == x.from.Copies[c].Message
		if same && !x.off[InHandOnce] && (other.held() || other.is(maybe)) {
			return true
		}
		placed := other.is(alone) && other.held() || other.is(suspect) && other.is(maybe) && !x.off[DoubtKeepsPlace]
		if placed && p.Items[c].is(suspect) && !x.off[SuspectsAlone] {
			return true
		}
	}
	return false
}

// ghostOf is a statement about an item as it stands.
func (x *machine) ghostOf(kind, w, c, id uint8) ghost {
	it := &x.from.Workers[w].Items[c]
	r := &x.from.Rows[x.from.Copies[c].Message]
	g := ghost{Kind: kind, Owner: id, Copy: c, Token: it.Token, Settle: it.Kind, Marks: it.Marks}
	switch kind {
	case ghostClaim:
		if g.Token, g.Settle = 0, 0; x.cfg.Watched {
			g.Row = *r
		} else {
			g.Row = row{Token: r.Token, State: r.State}
		}
		if it.is(dropped) && x.off[OwnPlaceOnly] {
			g.Marks |= suspect
		}
	case ghostFence:
		g.Settle = w
	}
	return g
}

// answered does what the claim table says.
func (x *machine) answered(n *state, w, c uint8, d *ledger.Decision) {
	p := &n.Workers[w]
	it := &p.Items[c]
	x.mustLive(n, p.Session, d)
	unexplained := d.Answer == ledger.Busy && d.Wait <= 0 && !d.Suspect
	if !unexplained {
		it.Marks &^= maybe
	}
	if d.Write || it.is(maybe) {
		it.Owner = p.Session
	} else {
		it.Owner = 0
	}
	switch {
	case d.Answer == ledger.Run:
		it.Token, it.Attempt = uint8(d.Token), uint8(d.Attempts)+1
		if it.is(suspect) {
			it.Marks |= alone
		}
		if it.Phase = claimed; it.is(dropped) {
			x.settle(it, ledger.Release, 0)
		}
	case d.Answer == ledger.Done, d.Answer == ledger.InCare:
		x.finish(n, w, c)
	case d.Answer == ledger.Spent:
		it.Token = uint8(d.Token)
		x.settle(it, ledger.Fail, 0)
	case d.Answer == ledger.Mismatch:
		it.Owner = p.Session
		x.settle(it, ledger.Fail, mismatch)
	case d.Suspect && it.is(dropped):
		*it = item{} // it was never asked for alone, and not taken
	case d.Suspect:
		it.Marks |= suspect
	case x.off[BusyIsKept]:
		x.finish(n, w, c)
	case (it.is(dropped) || n.Copies[c].Own == inCare) && !it.is(maybe):
		*it = item{}
	}
}

// settle puts a settlement on its way.
func (x *machine) settle(it *item, kind ledger.SettleKind, marks uint8) {
	it.Kind, it.Marks = uint8(kind), it.Marks&(dropped|alone|suspect)|marks
	if it.Phase = settling; kind == ledger.Fail && x.cfg.DeadLetters {
		it.Phase = publish
	}
}

// follow does what the engine's verdict says of a handler's end.
func (x *machine) follow(n *state, w, c uint8, e engine.Ended) {
	it := &n.Workers[w].Items[c]
	attempts := x.limit
	if x.off[AttemptsEnd] {
		attempts = 1 << 30
	}
	v := engine.Judge(attempts, e, int(it.Attempt))
	switch {
	case v.Ack:
		x.finish(n, w, c)
	case v.Ask:
		marks := it.Marks & (dropped | suspect)
		*it = item{Phase: queued, Marks: marks, Owner: it.Owner}
		if p := &n.Workers[w]; p.member() && p.Session == it.Owner {
			it.Marks |= maybe
		} else {
			it.Owner = 0
		}
	default:
		marks := uint8(0)
		if v.Count || e.Cause != nil && x.off[InterruptionIsFree] && v.Settle == ledger.Release {
			marks |= counted
		}
		if v.After > 0 {
			marks |= later
		}
		kind := v.Settle
		if x.parks(n, c, &v) {
			kind, marks = ledger.Park, marks|later
		}
		x.settle(it, kind, marks)
	}
}

// runSteps are the ways in which a handler ends, or its transaction comes to its fence.
func (x *machine) runSteps(w, c uint8) {
	it := x.from.Workers[w].Items[c]
	m := x.from.Copies[c].Message
	if x.kinds[m] == Killer {
		x.emit(opEnd, w, c, kills, func(n *state) {
			if x.killed {
				n.Kills[m]++
			}
			x.die(n, w)
		})
		return
	}
	x.emit(opEnd, w, c, goes, func(n *state) {
		if x.cfg.Tx {
			x.fence(n, w, c)
			return
		}
		x.effect(n, m, &it)
		x.follow(n, w, c, engine.Ended{})
	})
	if x.calm {
		return
	}
	if x.kinds[m] == Flaky {
		x.emit(opEnd, w, c, fails, func(n *state) {
			n.Fails[m]++
			x.follow(n, w, c, engine.Ended{Err: errHandler})
		})
	}
	if it.is(called) || it.is(dropped) {
		x.emit(opEnd, w, c, cancelled, func(n *state) {
			x.follow(n, w, c, engine.Ended{Err: context.Canceled, Cause: ledger.ErrLost})
		})
	}
	if x.cfg.Tx && x.kinds[m] == Flaky && x.from.Ghost.Kind == noGhost {
		x.fault(lates, opEnd, w, c, leaves, func(n *state) {
			n.Ghost = x.ghostOf(ghostFence, w, c, it.Owner)
			n.Fails[m]++
			x.follow(n, w, c, engine.Ended{Err: errLeft, State: ledger.AttemptRunning})
		})
	}
}

// effect is what the world outside sees of a handler. It refuses tokens lower than one it has seen.
func (x *machine) effect(n *state, m uint8, it *item) {
	if x.cfg.Park {
		n.Effects[m]++
	}
	if it.Token < n.High[m] {
		return
	}
	if it.Token == n.High[m] && n.HighBy[m] != it.Owner {
		x.broken = promises.TokensGrow + ": two owners' effects are accepted under one"
	}
	n.High[m], n.HighBy[m] = it.Token, it.Owner
}
