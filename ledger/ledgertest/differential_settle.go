package ledgertest

import (
	"time"

	"pgregory.net/rapid"

	"github.com/ackledger/ackledger/ledger"
)

func (d *differ) settle() {
	if len(d.tickets) == 0 {
		return
	}
	n := len(d.tickets)
	back := min(n-1, max(0, rapid.IntRange(-6, 6).Draw(d.rt, "back"))) // mostly the latest ticket
	ticket := d.tickets[n-1-back]
	me := ticket.owner
	if rapid.IntRange(0, 9).Draw(d.rt, "stranger") == 0 {
		me = d.pick()
	}
	d.send(me, []modelTicket{ticket}, d.settlement)
}

// settlement draws what becomes of a ticket.
func (d *differ) settlement(ticket modelTicket) ledger.Settlement {
	n := len(d.tickets)
	c := ledger.Claim{Ticket: ticket.ticket, Attempt: 1}
	var s ledger.Settlement
	kinds := 3
	if d.parks() {
		kinds = 4
	}
	switch rapid.IntRange(0, kinds).Draw(d.rt, "kind") {
	case 0:
		s = succeed(c)
		if !d.Ranged || rapid.IntRange(0, 3).Draw(d.rt, "result") == 0 {
			s.Result = []byte(number(n))
		}
	case 1:
		m := d.entry(ticket.id)
		m.Delivery = d.delivery(ticket.id)
		s = fail(c, m)
	case 2:
		s = failedAttempt(c, "again")
	case 3:
		s = release(c)
		if rapid.Bool().Draw(d.rt, "later") {
			s.After = time.Hour
		}
	case 4:
		m := d.entry(ticket.id)
		m.Delivery = d.delivery(ticket.id)
		s = park(c, m, time.Hour)
		if s.Count = rapid.Bool().Draw(d.rt, "counts"); !s.Count {
			s.Failure = ledger.AttemptError{}
		}
		if ticket.ticket.IsMismatch() {
			s = release(c)
		}
	}
	return s
}

// parks says whether messages are parked: in rows, by a ledger that can.
func (d *differ) parks() bool {
	p, ok := d.Ledger.(ledger.Parking)
	return ok && p.Parks() && !d.Ranged
}

// send settles tickets of distinct messages in one call, each in the way that is drawn.
func (d *differ) send(me int, tickets []modelTicket, draw func(modelTicket) ledger.Settlement) {
	settlements := make([]ledger.Settlement, len(tickets))
	for i, ticket := range tickets {
		settlements[i] = draw(ticket)
	}
	lost := d.lose()
	errs, err := d.owners[me].Settle(d.ctx, settlements)
	if lost && !ledger.IsLost(err) {
		d.found(err)
		errs, err = d.owners[me].Settle(d.ctx, settlements)
	}
	if d.found(nil); d.Ranged && ledger.IsLost(err) && *d.owners[me].fate != ledger.Live {
		return // only a live owner writes in its ranges: nothing of the call was written
	}
	if err != nil {
		d.rt.Fatalf("settle: %v", err)
	}
	for i, ticket := range tickets {
		s := &settlements[i]
		d.rt.Logf("%v of %s by %d, token %d, counted %t, after %s, result %q, lost %t: %v", s.Kind, ticket.id, me, s.Ticket.Token(),
			s.Count, s.After, s.Result, lost, errs[i])
		d.settled(me, ticket, settlements[i], errs[i])
		d.compare(ticket.id)
	}
}

// settled compares one answer with the model's, and carries the model on.
func (d *differ) settled(me int, ticket modelTicket, s ledger.Settlement, err error) {
	id := ticket.id
	r := d.rows[id]
	seen := d.see(r, me)
	if seen != nil && s.Kind == ledger.Fail {
		_, seen.Archived = d.archive[id][string(s.Dead.Delivery)]
	}
	effect := ledger.DecideSettle(seen, s)
	if d.Ranged && effect == ledger.EffectLost && s.Kind == ledger.Release && d.back[s.Ticket] && err == nil {
		effect = ledger.EffectHolds // it was given back by this very ticket: its owner may remember
	}
	if d.Ranged && *d.owners[me].fate != ledger.Live && ledger.IsLost(err) {
		effect = ledger.EffectLost // only a live owner writes in its ranges
	}
	if d.Ranged && effect == ledger.EffectHolds && ticket.owner != me && ledger.IsLost(err) {
		effect = ledger.EffectLost // another owner's ticket: what succeeded in a range keeps no token
	}
	if effect == ledger.EffectHolds && ledger.IsLost(err) && (d.fades(id) || d.Ranged && d.clock > r.ended) {
		effect = ledger.EffectLost // its window is over, or its row went into what its log has finished
	}
	if d.Ranged && effect == ledger.EffectLost && d.ended[s.Ticket] && err == nil {
		effect = ledger.EffectHolds // its window is over, but its owner may remember
	}
	if effect == ledger.EffectWrite {
		d.back[s.Ticket] = s.Kind == ledger.Release
		d.ended[s.Ticket] = s.Kind == ledger.Succeed
	}
	if lost := effect == ledger.EffectLost; lost != ledger.IsLost(err) || !lost && err != nil {
		d.rt.Fatalf("%v of %s by %d: %v, want effect %d of %+v", s.Kind, id, me, err, effect, seen)
	}
	if effect != ledger.EffectWrite && effect != ledger.EffectFile {
		return
	}
	if s.Kind == ledger.Fail {
		if d.archive[id] == nil {
			d.archive[id] = map[string]uint64{}
		}
		if _, there := d.archive[id][string(s.Dead.Delivery)]; !there {
			d.archive[id][string(s.Dead.Delivery)] = s.Ticket.Token()
		}
	}
	if effect == ledger.EffectFile {
		return
	}
	r.owner, r.ended = -1, d.clock
	switch s.Kind {
	case ledger.Succeed:
		r.State, r.result, r.Parked = ledger.Succeeded, s.Result, false
	case ledger.Fail:
		r.State, r.Parked = ledger.Failed, false
	case ledger.Release, ledger.Park:
		r.Parked = r.Parked || s.Kind == ledger.Park
		r.due, r.later = s.After > 0, s.After > 0
		if s.Count {
			r.Attempts++
			r.errors++
		}
	}
}
