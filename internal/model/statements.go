package model

import (
	"github.com/ackledger/ackledger/internal/promises"
	"github.com/ackledger/ackledger/ledger"
)

// The statements, as the database carries them out: each at once and by itself, as the stores' single statements under
// row locks do.

// claimAs carries out a claim. lost says that the owner was not live.
func (x *machine) claimAs(s *state, id, c uint8, solo bool) (d ledger.Decision, lost bool) {
	if s.Owners[id-1].Fate != live && !x.off[OwnerIsLive] && !x.cfg.Watched {
		return ledger.Decision{}, true
	}
	copied := &s.Copies[c]
	e := ledger.Entry{Fingerprint: bodyOf(copied.Other), StampToken: uint64(copied.Stamp), Solo: solo, Park: x.cfg.Park, Parked: copied.Own == inCare}
	seen, ok := x.see(s, id, c)
	if !ok {
		d = x.decide(nil, e)
	} else {
		d = x.decide(&seen, e)
	}
	m := copied.Message
	r := &s.Rows[m]
	if copied.Own == 1 && d.Answer == ledger.Done && r.State == ledger.Failed && copied.For == r.Token && !s.archived(c) {
		x.broken = "a replay in place runs nothing"
	}
	if !d.Write {
		return d, false
	}
	x.noteTake(s, c, r, &d)
	if d.Renew {
		s.Fails[m] = 0
	}
	body, parked := r.Other, r.Parked
	if r.State == 0 {
		body = copied.Other
	}
	*r = row{Other: body, Parked: parked, State: ledger.Pending, Owner: id, Token: uint8(d.Token), Attempts: uint8(d.Attempts), Crashes: uint8(d.Crashes)}
	return d, false
}

// noteTake checks what only the moment of a claim shows.
func (x *machine) noteTake(s *state, c uint8, r *row, d *ledger.Decision) {
	copied := &s.Copies[c]
	switch {
	case d.Answer == ledger.Run && s.archived(c):
		x.broken = promises.FinishedStays + ": a delivery that failed for good is"
	case d.Answer == ledger.Run && r.State == ledger.Failed && copied.For != 0 && copied.For != r.Token:
		x.broken = "a replay runs another failure than the one that it was sent for"
	case d.Answer == ledger.Run && d.Crashes >= ledger.CrashLimit:
		x.broken = promises.CrashesEnd + ": a message is run after as many as the limit allows"
	case d.Answer == ledger.Run && r.State != 0 && copied.Other != r.Other:
		x.broken = promises.NotToBeRun + ": another body does under a message's id"
	case d.Answer == ledger.Spent && x.gentle && x.kinds[copied.Message] == Innocent && !x.cfg.Park:
		x.broken = promises.InnocentStays
	}
}

// settleAs carries out a settlement. While a transaction holds the row there is none: it is asked again.
func (x *machine) settleAs(s *state, id, c, token, kind, marks uint8) (effect ledger.Effect) {
	set := ledger.Settlement{Kind: ledger.SettleKind(kind), Ticket: ledger.NewTicket([ledger.KeySize]byte{}, uint64(token))}
	if marks&mismatch != 0 {
		set.Ticket = ledger.MismatchTicket([ledger.KeySize]byte{})
	}
	seen, ok := x.see(s, id, c)
	if !ok {
		effect = x.decideSettle(nil, set)
	} else {
		effect = x.decideSettle(&seen, set)
	}
	switch effect {
	case ledger.EffectFile:
		x.file(s, c, mismatched)
	case ledger.EffectWrite:
		x.write(s, c, token, set.Kind, marks)
	}
	return effect
}

// write writes a settlement that passed the guard.
func (x *machine) write(s *state, c, token uint8, kind ledger.SettleKind, marks uint8) {
	r := &s.Rows[s.Copies[c].Message]
	r.Owner, r.Waits = 0, 0
	switch kind {
	case ledger.Succeed:
		r.State, r.Parked = ledger.Succeeded, 0
	case ledger.Fail:
		r.State, r.Failed, r.Parked = ledger.Failed, s.delivery(c)+1, 0
		if !x.off[FailArchives] {
			x.file(s, c, token)
		}
	case ledger.Release, ledger.Park:
		if r.State = ledger.Pending; kind == ledger.Park {
			x.parkAs(s, c)
		}
		if marks&counted != 0 {
			r.Attempts++
		}
		if marks&later != 0 {
			r.Waits = 1
		}
	}
}

// file archives a delivery; the first one stays.
func (x *machine) file(s *state, c, token uint8) {
	c = s.delivery(c)
	if !s.archived(c) {
		s.Archive[c] = token
	}
}

// fenceAs is the last statement of a transaction: it locks the row and writes the success, which COMMIT makes visible.
func (x *machine) fenceAs(s *state, w, id, c, token uint8) bool {
	r := &s.Rows[s.Copies[c].Message]
	seen, ok := x.see(s, id, c)
	set := ledger.Settlement{Kind: ledger.Succeed, Ticket: ledger.NewTicket([ledger.KeySize]byte{}, uint64(token))}
	if r.Lock != 0 || !ok || x.decideSettle(&seen, set) != ledger.EffectWrite {
		return false
	}
	r.Lock = w + 1
	return true
}

// commitAs is what the server makes of a transaction whose fence has passed.
func (x *machine) commitAs(s *state, m uint8) {
	r := &s.Rows[m]
	s.Effects[m]++
	r.State, r.Owner, r.Lock, r.Sent, r.Waits, r.Parked = ledger.Succeeded, 0, 0, 0, 0, 0
}

// databaseSteps are what the database does by itself: it decides about transactions whose client is away, and carries out
// statements that were given up.
func (x *machine) databaseSteps() {
	s := x.from
	for m := range uint8(len(x.cfg.Messages)) {
		r := &s.Rows[m]
		if r.Waits == 1 {
			x.emit(opDue, 0, m, goes, func(n *state) { n.Rows[m].Waits = 0 })
		}
		if r.Lock == 0 {
			continue
		}
		abort := func(n *state) { n.Rows[m].Lock, n.Rows[m].Sent = 0, 0 }
		if r.Sent == 1 {
			x.emit(opResolve, 0, m, goes, func(n *state) { x.commitAs(n, m) })
			x.emit(opAbort, 0, m, goes, abort)
		} else if !x.attended(m) {
			x.emit(opResolve, 0, m, rollsBack, abort)
		} else {
			x.fault(losses, opAbort, 0, m, goes, abort)
		}
	}
	x.ghostSteps()
}

// attended says whether a worker is about to commit a message's transaction.
func (x *machine) attended(m uint8) bool {
	w := x.from.Rows[m].Lock - 1
	for c := range x.from.Next {
		if x.from.Copies[c].Message == m && x.from.Workers[w].Items[c].Phase == fenced {
			return true
		}
	}
	return false
}

// ghostSteps are what becomes of a statement that its client gave up.
func (x *machine) ghostSteps() {
	g := x.from.Ghost
	if g.Kind == noGhost {
		return
	}
	x.emit(opEvaporate, 0, g.Copy, goes, func(n *state) { n.Ghost = ghost{} })
	m := x.from.Copies[g.Copy].Message
	if x.from.Rows[m].Lock != 0 {
		return
	}
	x.emit(opGhost, 0, g.Copy, g.Kind, func(n *state) {
		n.Ghost = ghost{}
		switch {
		case g.Kind == ghostClaim:
			x.land(n, &g)
		case g.Kind == ghostSettle:
			x.settleAs(n, g.Owner, g.Copy, g.Token, g.Settle, g.Marks)
		case x.cfg.Watched:
			x.requestAs(n, g.Settle, g.Owner, g.Copy, g.Token)
		case x.fenceAs(n, g.Settle, g.Owner, g.Copy, g.Token):
			n.Rows[m].Sent = 1
		}
	})
}
