package ledgertest

import (
	"errors"
	"slices"

	"pgregory.net/rapid"

	"github.com/ackledger/ackledger/ledger"
)

// modelStretch is one that is its owner's, as far as the model knows.
type modelStretch struct {
	ledger.Stretch
	owner int
	ids   []string
	token uint64
}

// neighbours draws messages of the model that lie side by side in a log: mostly the next ones that nobody has claimed, since only what
// lies above all that is there is claimed as one.
func (d *differ) neighbours() (ids []string) {
	from := rapid.IntRange(0, len(d.ids)-1).Draw(d.rt, "from")
	if how := rapid.IntRange(0, 2).Draw(d.rt, "where"); how > 0 {
		log, again := d.log(d.ids[from]), how == 2 // what was given back: its log may have been dropped
		from = slices.IndexFunc(d.ids, func(id string) bool { return d.log(id) == log })
		for i, id := range d.ids {
			if r := d.rows[id]; d.log(id) == log && r != nil && (!again || !d.plain(id, r)) {
				from = min(i+1, len(d.ids)-1)
			}
		}
	}
	most := rapid.IntRange(1, 4).Draw(d.rt, "records")
	for _, id := range d.ids[from:] {
		if d.log(id) != d.log(d.ids[from]) || len(ids) == most {
			break
		}
		ids = append(ids, id)
	}
	return ids
}

// stretchOf asks for neighbours as one; false: the first of them is not delivered any more.
func (d *differ) stretchOf(ids []string) (s ledger.Stretch, all []ledger.Entry, ok bool) {
	window := d.window()
	for _, id := range ids {
		m := d.entry(id)
		m.Delivery, m.Window = d.delivery(id), window
		all = append(all, m)
	}
	if pos := all[0].Key.Pos; pos.Log == joined && pos.Offset < d.low || !d.place(&all[0]) {
		return s, nil, false
	}
	for i := range all {
		all[i].Ranged, all[i].StampToken, all[i].Key.Pos.First = true, 0, all[0].Key.Pos.First
		if at := all[i].Key.Pos.Offset; i > 0 && at > s.Last+1 {
			s.Gaps = append(s.Gaps, ledger.Gap{From: s.Last + 1, To: at})
		}
		s.Last = all[i].Key.Pos.Offset
	}
	s.First = all[0]
	return s, all, true
}

// claimStretch asks for neighbours as one, or for two times as many in one call. As a worker does, it asks for each by itself when the
// answer was lost.
func (d *differ) claimStretch() {
	me := d.pick()
	o, ok := ledger.Ungroup(d.owners[me].Owner).(ledger.StretchOwner)
	if !ok {
		return
	}
	var ask []ledger.Stretch
	var made []modelStretch
	var all [][]ledger.Entry
	asked := map[string]bool{}
	for range rapid.IntRange(1, 2).Draw(d.rt, "stretches") {
		ids := d.neighbours()
		s, entries, delivered := d.stretchOf(ids)
		if !delivered || asked[d.log(ids[0])] {
			continue
		}
		asked[d.log(ids[0])] = true
		ask, all, made = append(ask, s), append(all, entries), append(made, modelStretch{Stretch: s, owner: me, ids: ids})
	}
	if len(ask) == 0 {
		return
	}
	lost := d.lose()
	tokens, err := o.ClaimStretches(d.ctx, ask)
	d.found(nil)
	if *d.owners[me].fate != ledger.Live {
		if err == nil && max(tokens[0], tokens[len(tokens)-1]) > 0 || err != nil && !ledger.IsLost(err) {
			d.rt.Fatalf("stretches of an owner that is not live: %v, %v", tokens, err)
		}
		return
	}
	if lost && err != nil {
		d.found(err)
		for i := range all {
			d.askEach(me, made[i].ids, all[i])
		}
		return
	}
	if err != nil {
		d.rt.Fatalf("stretches: %v", err)
	}
	for i, token := range tokens {
		d.rt.Logf("stretch of %v by %d, after %d: token %d", made[i].ids, me, ask[i].First.Key.Pos.Prev, token)
		made[i].token = token
		d.gotStretch(made[i], all[i])
	}
}

// askEach asks again for messages of a stretch whose claim was not answered.
func (d *differ) askEach(me int, ids []string, entries []ledger.Entry) {
	claims, err := d.owners[me].Claim(d.ctx, entries)
	if err != nil {
		d.rt.Fatalf("claim: %v", err)
	}
	for i, id := range ids {
		d.rt.Logf("claim of %s by %d, lost as one: %v token %d", id, me, claims[i].Answer, claims[i].Token)
		d.used(id)
		d.claimed(me, id, entries[i], claims[i], true)
	}
}

// gotStretch carries the model on: each message is claimed, or nothing has changed.
func (d *differ) gotStretch(s modelStretch, entries []ledger.Entry) {
	for i, id := range s.ids {
		if s.token == 0 {
			d.compare(id)
			continue
		}
		d.used(id)
		d.claimed(s.owner, id, entries[i], ledger.Claim{
			Answer: ledger.Run, Token: s.token, Attempt: 1, First: true, Ranged: true, Ticket: ledger.NewTicket(entries[i].Key.Sum(), s.token),
		}, false)
		d.compare(id)
	}
	if s.token > 0 {
		d.stretches = append(d.stretches, s)
	}
}

// settleStretch says of a stretch, or of its first records, that it succeeded, perhaps not for the first time. Each is told by itself
// where the ledger wants that.
func (d *differ) settleStretch() {
	if len(d.stretches) == 0 {
		return
	}
	back := min(len(d.stretches)-1, max(0, rapid.IntRange(-4, 3).Draw(d.rt, "back")))
	s := d.stretches[len(d.stretches)-1-back]
	o := ledger.Ungroup(d.owners[s.owner].Owner).(ledger.StretchOwner)
	n := len(s.ids)
	if rapid.IntRange(0, 2).Draw(d.rt, "a part") == 0 {
		n = rapid.IntRange(1, n).Draw(d.rt, "of it")
	}
	var tickets []modelTicket
	for _, id := range s.ids[:n] {
		tickets = append(tickets, modelTicket{ledger.NewTicket(d.key(id).Sum(), s.token), id, s.owner})
	}
	done := []ledger.StretchDone{{Ticket: tickets[0].ticket, Last: d.places.of[s.ids[n-1]].Offset, Messages: int64(n)}}
	lost := d.lose()
	errs, err := o.SettleStretches(d.ctx, done)
	if lost && err != nil && !ledger.IsLost(err) {
		d.found(err)
		errs, err = o.SettleStretches(d.ctx, done)
	}
	d.found(nil)
	if ledger.IsLost(err) && *d.owners[s.owner].fate != ledger.Live {
		return // nothing of the call was written
	}
	if err != nil {
		d.rt.Fatalf("settle of a stretch: %v", err)
	}
	d.rt.Logf("stretch of %v by %d, token %d, lost %t: %v", s.ids[:n], s.owner, s.token, lost, errs[0])
	if errors.Is(errs[0], ledger.ErrParts) {
		for _, t := range tickets {
			d.compare(t.id)
		}
		d.send(s.owner, tickets, func(t modelTicket) ledger.Settlement { return succeed(ledger.Claim{Ticket: t.ticket}) })
		return
	}
	for _, t := range tickets {
		d.settled(s.owner, t, succeed(ledger.Claim{Ticket: t.ticket}), errs[0])
		d.compare(t.id)
	}
}
