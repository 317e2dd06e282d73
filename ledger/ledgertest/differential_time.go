package ledgertest

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ackledger/ackledger/ledger"
)

// The windows of the model's messages beside an hour. What has a brief one may have gone whenever the model looks.
const (
	brief     = time.Millisecond
	dayWindow = 24 * time.Hour
)

// step is how much time passes in one step: more than everything that waits for an hour, and less than a day in all.
const (
	step     = 2 * time.Hour
	mostAges = 4
)

// passing is what the model knows of time and of logs that begin later and later.
type passing struct {
	clock   time.Duration // in whole hours
	ages    int
	mixed   bool // some claims ask for a row
	windows []time.Duration
	first   int64             // where the log begins
	told    int64             // what workers have told the ledger of that
	low     int64             // and had told when hours passed: nothing below is delivered any more
	after   bool              // a sweep
	floor   map[string]uint64 // the highest token that a message has had
	fresh   map[string]uint64 // and had when it was as if never claimed: that of a range
	past    map[string]uint64 // and had when it was forgotten
	lives   map[string]int    // how often it was
	emptied map[string]bool   // logs in which nothing was left when a sweep came
	shown   *comeback
}

func newPassing(again *comeback) passing {
	return passing{floor: map[string]uint64{}, fresh: map[string]uint64{}, past: map[string]uint64{}, lives: map[string]int{}, emptied: map[string]bool{}, shown: again}
}

// comeback counts what the sequences are to show: a test in which nothing is forgotten shows nothing of it.
type comeback struct {
	sweeps, logs, messages int
}

func (n *comeback) check(t *testing.T, sequences int) {
	t.Logf("%d sweeps; %d logs were used again in which a sweep had left nothing, %d messages after their window", n.sweeps, n.logs, n.messages)
	if sequences >= 1000 && n.sweeps > 0 && (n.logs == 0 || n.messages == 0) {
		t.Error("no log was dropped, or no message forgotten, that came again")
	}
}

// window draws that of a claim.
func (d *differ) window() time.Duration {
	if !d.Ranged {
		return window
	}
	return rapid.SampledFrom(d.windows).Draw(d.rt, "window")
}

// delivery draws a copy of a message. Those of one that was forgotten do not come again.
func (d *differ) delivery(id string) []byte {
	name := rapid.SampledFrom(modelDeliveries).Draw(d.rt, "delivery")
	if n := d.lives[id]; n > 0 {
		name += "." + strconv.Itoa(n)
	}
	return []byte(name)
}

// place says how a worker asks for a record; false: it is not delivered any more, and no copy of it comes.
func (d *differ) place(m *ledger.Entry) bool {
	pos := m.Key.Pos
	m.Ranged = true
	if d.mixed {
		m.Ranged = rapid.IntRange(0, 5).Draw(d.rt, "ranged") > 0
	} else {
		m.StampToken = 0
	}
	if rapid.IntRange(0, 3).Draw(d.rt, "first of its assignment") == 0 {
		pos.Prev = -1
	}
	if pos.Log != joined {
		return true
	}
	if pos.Offset < d.low { // but for a copy from somewhere else
		m.Ranged, m.StampToken = false, max(m.StampToken, 1)
		return d.mixed
	}
	if d.first > 0 && rapid.Bool().Draw(d.rt, "knows the first offset") {
		pos.First, d.told = d.first, d.first
	}
	return true
}

// retain is the broker's retention: the log begins later, in all of its epochs.
func (d *differ) retain() {
	for _, offset := range modelOffsets {
		if offset > d.first && rapid.Bool().Draw(d.rt, "the log's first offset") {
			d.first = offset
			d.rt.Logf("the log begins at %d", offset)
			return
		}
	}
}

// pass is a sweep, in which everything that must be kept stays.
func (d *differ) pass() {
	report, err := d.maintainer().Sweep(d.ctx, ledger.MaintainConfig{Keep: keep})
	if err != nil {
		d.rt.Fatalf("sweep: %v", err)
	}
	d.rt.Logf("sweep: %d messages, %d owners of %d rows gone", report.Messages+report.Dropped, report.Owners, report.Rows)
	d.after = true
	d.shown.sweeps++
	left := map[string]bool{}
	for id, r := range d.rows {
		if !d.plain(id, r) && !d.fades(id) {
			left[d.log(id)] = true
		}
	}
	for id := range d.floor {
		d.emptied[d.log(id)] = !left[d.log(id)]
	}
}

// used counts a log that is used again.
func (d *differ) used(id string) {
	if log := d.log(id); d.emptied[log] {
		d.emptied[log] = false
		d.shown.logs++
	}
}

func (d *differ) log(id string) string {
	pos := d.places.of[id]
	return pos.Log + strconv.Itoa(int(pos.Epoch))
}

// hours pass, and a sweep comes. Workers come and go meanwhile, all of them where some claim by row: an owner counts on its
// own clock for what it has bound to rows, and that goes on as before.
func (d *differ) hours() {
	if d.ages == mostAges {
		return
	}
	stay := d.ages == 0 && !d.mixed && d.windows[0] != brief
	for i, o := range d.owners {
		switch n := rapid.IntRange(0, 3).Draw(d.rt, "meanwhile"); {
		case *o.fate != ledger.Live:
		case n == 0:
			d.declareOf(i)
		case n == 1 || !stay:
			d.leaveOf(i)
		}
	}
	err := d.Age(d.ctx, step)
	if err == nil && d.Rest != nil {
		err = d.Rest(d.ctx)
	}
	if err != nil {
		d.rt.Fatalf("hours pass: %v", err)
	}
	d.ages++
	d.clock += step
	d.low = d.told
	for _, r := range d.rows {
		r.later = false
	}
	d.rt.Logf("%s are over; the log begins at %d for an hour", d.clock, d.low)
	for i, o := range d.owners {
		if *o.fate == ledger.Live {
			if _, err := o.Beat(d.ctx); err != nil {
				d.rt.Fatalf("beat of %d: %v", i, err)
			}
		}
	}
	d.join()
}

// drain gives back what an owner has in hand, as at a rebalance.
func (d *differ) drain() { d.drainOf(d.pick()) }

func (d *differ) drainOf(me int) {
	var held []modelTicket
	for _, t := range d.of(me, len(d.ids)) {
		if r := d.rows[t.id]; r != nil && r.State == ledger.Pending && r.owner == me && r.Token == t.ticket.Token() {
			held = append(held, t)
		}
	}
	if len(held) > 0 {
		d.send(me, held, func(t modelTicket) ledger.Settlement { return release(ledger.Claim{Ticket: t.ticket}) })
	}
}

// rest is a sweep, beside the workers or between the end of all and the next one.
func (d *differ) rest() {
	if rapid.IntRange(0, 3).Draw(d.rt, "beside them") == 0 {
		d.pass()
		return
	}
	for i, o := range d.owners {
		if *o.fate == ledger.Live {
			d.drainOf(i)
			d.leaveOf(i)
		}
	}
	d.pass()
	d.join()
}

// dropLogs takes away the logs of a sequence: every sweep of the others would look at them.
func (d *differ) dropLogs() {
	dropped := map[string]bool{}
	for id := range d.floor {
		if log := d.log(id); !dropped[log] {
			dropped[log] = true
			if err := d.Drop(d.ctx, d.key(id)); err != nil {
				d.rt.Fatalf("drop: %v", err)
			}
		}
	}
}

// plain says that nothing is to be known of a message: it was given back unharmed.
func (d *differ) plain(id string, r *modelRow) bool {
	return r.State == ledger.Pending && r.owner < 0 && d.unharmed(id, r)
}

// unharmed says that nothing has happened to a message since it was as if never claimed. What is archived may be of a life
// before that.
func (d *differ) unharmed(id string, r *modelRow) bool {
	return r.Attempts == 0 && r.Crashes == 0 && !r.due && r.errors == 0 && (len(d.archive[id]) == 0 || d.lives[id] > 0)
}

// fades says whether a message that has succeeded or failed may have gone: its window is over, or the log begins behind it.
func (d *differ) fades(id string) bool {
	r := d.rows[id]
	if !d.Ranged || r == nil || r.State == ledger.Pending {
		return false
	}
	pos := d.places.of[id]
	return d.clock >= r.until || pos.Log == joined && (pos.Offset < d.low || pos.Offset < d.told && d.clock > r.ended)
}

// faded takes over what has gone of a message that may go.
func (d *differ) faded(id string, got ledger.Record, err error) {
	r := d.rows[id]
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		d.forget(id)
	case err != nil:
	case got.In != nil && got.State == ledger.Succeeded && r.State == ledger.Succeeded:
		r.result = nil // it has gone with its row
	case len(d.archive[id]) > 0 && got.State == ledger.Pending:
		// A claim that goes by rows made one, in which the delivery that failed before was known again.
		d.forget(id)
		r = &modelRow{Row: ledger.Row{State: ledger.Pending, Fingerprint: d.entry(id).Fingerprint}}
		r.owner = slices.IndexFunc(d.owners, func(o modelOwner) bool { return o.ID() == got.Owner })
		d.grows(id, r, got.Token, true)
		r.Token = got.Token
		d.rows[id] = r
	}
}

// forget begins a new life of a message. The token of its row went with that, those of the log's ranges only grow.
func (d *differ) forget(id string) {
	d.past[id] = d.rows[id].Token
	delete(d.rows, id)
	d.lives[id]++
	d.floor[id] = d.fresh[id]
}

// begunAnew forgets a message that may have gone and is answered as if it had.
func (d *differ) begunAnew(id string, c ledger.Claim) {
	if d.fades(id) && c.Answer == ledger.Run && c.Attempt == 1 && c.Crashes == 0 && len(c.Errors) == 0 && !c.TookOver {
		d.forget(id)
		d.shown.messages++
	}
}

// grows checks the token of a message that was claimed, perhaps twice; r is as it was before.
func (d *differ) grows(id string, r *modelRow, token uint64, again bool) (restarts bool) {
	fresh := r.Token == 0 || d.plain(id, r)
	// Claims by row do not ask what a log had that was dropped.
	restarts = d.mixed && d.floor[id] > 0 && fresh && (d.after || r.Token == 0)
	if token <= d.floor[id] && !restarts {
		d.rt.Fatalf("token %d of %s, which has had %d", token, id, d.floor[id])
	}
	d.floor[id] = token
	if before := max(d.past[id], r.Token); !fresh || token > before && token <= before+2 {
		return restarts // it may have a row still
	}
	token-- // a row was made for it, perhaps, with the token before
	if again {
		token-- // the first answer was of a range, the second is of a row
	}
	d.fresh[id] = token
	return restarts
}
