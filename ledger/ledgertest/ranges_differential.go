package ledgertest

import (
	"context"
	"errors"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/ackledger/ackledger/ledger"
)

// modelOffsets are where the model's messages lie in their log: with gaps, one of them longer than any range is made over.
var modelOffsets = []int64{0, 1, 2, 3, 5, 6, 7, 12, 13, 2013, 2014, 2015}

// modelLogs are the log, its next leader epoch, which begins within it, and the log of a topic that was created again.
var modelLogs = []struct {
	prefix  string
	log     string
	epoch   int32
	offsets []int64
}{
	{"", joined, 0, modelOffsets},
	{"next ", joined, 1, []int64{5, 6, 7, 12, 13}},
	{"again ", joined + " again", 0, []int64{0, 1, 2, 3}},
}

// placed makes the model's messages neighbours in one log, and those of its later lives.
func (d *differ) placed() {
	d.ids = nil
	for _, l := range modelLogs[:rapid.IntRange(1, len(modelLogs)).Draw(d.rt, "logs")] {
		prev := int64(-1)
		for i, offset := range l.offsets {
			id := l.prefix + number(i)
			d.ids = append(d.ids, id)
			d.places.of[id] = ledger.Position{Log: l.log, Epoch: l.epoch, Offset: offset, Prev: prev}
			prev = offset
		}
	}
	d.mixed = rapid.Bool().Draw(d.rt, "claims by row as well")
	d.windows = rapid.SampledFrom([][]time.Duration{{brief}, {time.Hour}, {dayWindow}, {time.Hour, dayWindow}}).Draw(d.rt, "windows")
}

// lose makes the next answer be lost, now and then.
func (d *differ) lose() bool {
	if d.Lose == nil || rapid.IntRange(0, 5).Draw(d.rt, "lost") > 0 {
		return false
	}
	d.Lose(true)
	return true
}

// found ends what lose began; err is what was answered meanwhile.
func (d *differ) found(err error) {
	if d.Lose != nil {
		d.Lose(false)
	}
	if err != nil && !ledger.Unknown(err) {
		d.rt.Fatalf("a lost answer reads %v", err)
	}
}

// some draws a few of the latest tickets of one owner, of distinct messages.
func (d *differ) some(most int) (me int, tickets []modelTicket) {
	me = d.pick()
	return me, d.of(me, rapid.IntRange(1, most).Draw(d.rt, "tickets"))
}

// of are the latest n tickets of one owner, of distinct messages.
func (d *differ) of(me, n int) (tickets []modelTicket) {
	for _, t := range slices.Backward(d.tickets) {
		same := func(o modelTicket) bool { return o.id == t.id }
		if t.owner == me && !t.ticket.IsMismatch() && !slices.ContainsFunc(tickets, same) && len(tickets) < n {
			tickets = append(tickets, t)
		}
	}
	return tickets
}

func (d *differ) settleMany() {
	if me, tickets := d.some(8); len(tickets) > 0 {
		d.send(me, tickets, d.settlement)
	}
}

// commit runs a transaction of one message, or of several: all of them succeed if every one could, or nothing happens.
func (d *differ) commit() {
	me, tickets := d.some(5)
	if len(tickets) == 0 || d.InTx == nil {
		return
	}
	all := true
	list, results := make([]ledger.Ticket, len(tickets)), make([][]byte, len(tickets))
	for i, t := range tickets {
		list[i] = t.ticket
		all = all && ledger.DecideSettle(d.see(d.rows[t.id], me), ledger.Settlement{Ticket: t.ticket, Kind: ledger.Succeed}) == ledger.EffectWrite
		if rapid.IntRange(0, 3).Draw(d.rt, "result") == 0 {
			results[i] = []byte(number(len(d.tickets)))
		}
	}
	a := ledger.NewBatchAttempt(d.owners[me].Owner, list)
	if len(list) == 1 {
		a = ledger.NewAttempt(d.owners[me].Owner, list[0])
	}
	err := d.InTx(ledger.WithAttempt(d.ctx, a), func(context.Context) error {
		for i, result := range results {
			if err := a.SetResultAt(i, result); err != nil {
				return err
			}
		}
		return nil
	})
	if all && ledger.IsLost(err) && *d.owners[me].fate != ledger.Live {
		all = false // it tried to settle one of them after its end: then that one is out of its hands
	}
	if (err == nil) != all || err != nil && !ledger.IsLost(err) {
		d.rt.Fatalf("InTx of %v by %d: %v, want success %t", tickets, me, err, all)
	}
	for i, t := range tickets {
		if all {
			r := d.rows[t.id]
			r.State, r.owner, r.result, r.ended = ledger.Succeeded, -1, results[i], d.clock
			d.ended[t.ticket] = true
		}
		d.compare(t.id)
	}
}

// inRange compares a message that is held in a range, or was given back there; false: it has a row.
func (d *differ) inRange(id string, want *modelRow, got ledger.Record, err error) bool {
	plain := d.unharmed(id, want)
	if errors.Is(err, ledger.ErrNotFound) {
		if !plain || want.State != ledger.Pending || want.owner >= 0 {
			d.rt.Fatalf("nothing is known of %s, want %+v owner %d", id, want.Row, want.owner)
		}
		return true
	}
	if err != nil || got.In == nil {
		return false
	}
	if d.places.of[id].Offset < got.In.From || d.places.of[id].Offset >= got.In.To || got.State != want.State || want.result != nil ||
		got.State == ledger.Pending && (!plain || got.Token != want.Token || want.owner < 0 || got.Owner != d.owners[want.owner].ID()) {
		d.rt.Fatalf("%s in %+v: %s\nwant %+v owner %d", id, *got.In, summary(got), want.Row, want.owner)
	}
	return true
}
