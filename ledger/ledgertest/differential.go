package ledgertest

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ackledger/ackledger/internal/reliability"
	"github.com/ackledger/ackledger/ledger"
)

// Differential compares the store with an independent model on random sequences of join, claim, settle, release,
// declare and leave; steps bounds the length of a sequence. With [Ranged] the messages are neighbours in one log, calls
// and transactions are of several of them, and tokens have to grow and no more.
//
// A step is one call that changes or asks something, whatever the number of its messages. With ACKLEDGER_LONG=1 sequences
// go on until there were 145,000 of them: a million for the seven stores and modes of this module.
func Differential(t *testing.T, open Open, steps int) {
	e := begin(t, open)
	base := e.scope
	round, made := 0, 0
	sequence := func(rt *rapid.T) {
		round++
		e.scope = base + " " + number(round)
		d := &differ{env: e, rt: rt, rows: map[string]*modelRow{}, archive: map[string]map[string]uint64{}, back: map[ledger.Ticket]bool{}}
		d.join()
		d.join()
		d.ids = modelIDs
		actions := []func(){d.claim, d.claim, d.claim, d.settle, d.settle, d.settle, d.declare, d.leave, d.join}
		if d.Ranged {
			d.placed()
			actions = append(actions, d.settleMany, d.settleMany, d.settleMany, d.claim, d.commit, d.commit)
		}
		for range rapid.IntRange(1, steps).Draw(rt, "steps") {
			rapid.SampledFrom(actions).Draw(rt, "action")()
			made++
		}
		for _, id := range d.ids {
			d.compare(id)
		}
		for _, o := range d.owners { // a shared ledger is left as it was found
			_ = o.Leave(e.ctx)
		}
	}
	rapid.Check(t, sequence)
	for os.Getenv("ACKLEDGER_LONG") != "" && made < longSteps && !t.Failed() {
		rapid.Check(t, sequence) // with another seed
	}
	t.Logf("%d steps in %d sequences", made, round)
	if page := reliability.Page(); page != "" && !t.Failed() {
		if err := reliability.Row(page, "differential", folder()+" "+t.Name(), reliability.Today(), strconv.Itoa(made), strconv.Itoa(round)); err != nil {
			t.Error(err)
		}
	}
}

// folder is that of the package under test, with the one above it.
func folder() string {
	dir, _ := os.Getwd()
	return filepath.Base(filepath.Dir(dir)) + "/" + filepath.Base(dir)
}

// longSteps is how many steps a store makes in the long run.
const longSteps = 145_000

var (
	modelIDs        = []string{"a", "b", "c"}
	modelBodies     = []string{"x", "x", "x", "x", "y"}
	modelDeliveries = []string{"d1", "d2", "d3"}
)

// differ drives a store and its model. The model is a map and ledger.Decide; it shares no code with any store.
type differ struct {
	*env
	rt      *rapid.T
	ids     []string
	owners  []modelOwner
	rows    map[string]*modelRow
	archive map[string]map[string]uint64 // id, delivery: token
	tickets []modelTicket
	back    map[ledger.Ticket]bool // given back by it
}

type modelOwner struct {
	ledger.Owner
	fate *ledger.Holder // Live, Left or Dead
}

type modelRow struct {
	ledger.Row
	owner  int // index; -1: nobody
	later  bool
	result []byte
	errors int
}

type modelTicket struct {
	ticket ledger.Ticket
	id     string
	owner  int
}

func (d *differ) join() {
	if len(d.owners) >= 6 {
		return
	}
	o, err := d.Ledger.Join(d.ctx, longLease)
	if err != nil {
		d.rt.Fatalf("join: %v", err)
	}
	fate := ledger.Live
	d.owners = append(d.owners, modelOwner{o, &fate})
}

func (d *differ) pick() int { return rapid.IntRange(0, len(d.owners)-1).Draw(d.rt, "owner") }

func (d *differ) declare() {
	o := d.owners[d.pick()]
	if err := d.Declare(d.ctx, o.ID()); err != nil {
		d.rt.Fatalf("declare: %v", err)
	}
	if *o.fate == ledger.Live {
		*o.fate = ledger.Dead
	}
}

func (d *differ) leave() {
	o := d.owners[d.pick()]
	if err := o.Leave(d.ctx); err != nil {
		d.rt.Fatalf("leave: %v", err)
	}
	if *o.fate == ledger.Live {
		*o.fate = ledger.Left
	}
}

// see fills in what the tables need: as owner me sees the row.
func (d *differ) see(r *modelRow, me int) *ledger.Row {
	if r == nil {
		return nil
	}
	seen := r.Row
	seen.DueIn, seen.HeldFor = 0, longLease
	if r.later {
		seen.DueIn = time.Hour
	}
	switch r.owner {
	case -1:
		seen.Holder = ledger.Nobody
	case me:
		seen.Holder = ledger.Mine
	default:
		seen.Holder = *d.owners[r.owner].fate
	}
	return &seen
}

func (d *differ) claim() {
	me := d.pick()
	var entries []ledger.Entry
	var ids []string
	for _, id := range rapid.Permutation(d.ids).Draw(d.rt, "ids")[:rapid.IntRange(1, len(d.ids)).Draw(d.rt, "n")] {
		m := d.entry(id)
		if d.Ranged {
			m.Ranged = rapid.IntRange(0, 5).Draw(d.rt, "ranged") > 0
			if rapid.IntRange(0, 3).Draw(d.rt, "first of its assignment") == 0 {
				m.Key.Pos.Prev = -1
			}
		} else {
			m.Fingerprint = ledger.BodyFingerprint([]byte(rapid.SampledFrom(modelBodies).Draw(d.rt, "body")))
		}
		m.Delivery = []byte(rapid.SampledFrom(modelDeliveries).Draw(d.rt, "delivery"))
		m.StampToken = uint64(max(0, rapid.IntRange(-4, 4).Draw(d.rt, "stamp")))
		m.Solo, m.Park = rapid.Bool().Draw(d.rt, "solo"), rapid.IntRange(0, 3).Draw(d.rt, "park") == 0
		entries, ids = append(entries, m), append(ids, id)
	}
	lost := d.lose()
	for i := range entries { // parked twice, the second answer says nothing of the first
		entries[i].Park = entries[i].Park && !lost
	}
	claims, err := d.owners[me].Claim(d.ctx, entries)
	if lost && *d.owners[me].fate == ledger.Live { // asked again until answered
		d.found(err)
		claims, err = d.owners[me].Claim(d.ctx, entries)
	}
	d.found(nil)
	if *d.owners[me].fate != ledger.Live {
		if !ledger.IsLost(err) {
			d.rt.Fatalf("claim of an owner that is not live: %v", err)
		}
		return
	}
	if err != nil {
		d.rt.Fatalf("claim: %v", err)
	}
	for i := range entries {
		d.rt.Logf("claim of %s by %d, ranged %t, stamp %d, lost %t: %v token %d", ids[i], me, entries[i].Ranged, entries[i].StampToken,
			lost, claims[i].Answer, claims[i].Token)
		d.claimed(me, ids[i], entries[i], claims[i], lost)
	}
}

// claimed compares one answer with the model's, and carries the model on.
func (d *differ) claimed(me int, id string, m ledger.Entry, c ledger.Claim, again bool) {
	r := d.rows[id]
	seen := d.see(r, me)
	if seen != nil {
		_, seen.Archived = d.archive[id][string(m.Delivery)]
	}
	want := ledger.Decide(seen, m)
	if again && want.Write { // it may be our own already, and then nothing was taken over now
		want.TookOver = c.TookOver
	}
	if c.Err != nil || c.Answer != want.Answer || c.Suspect != want.Suspect || c.Uncertain != want.Uncertain ||
		c.TookOver != want.TookOver || (c.Wait > 0) != (want.Wait > 0) || c.Wait > want.Wait {
		d.rt.Fatalf("claim of %s by %d: %+v\nwant %+v\nof %+v", id, me, c, want, seen)
	}
	if c.Answer == ledger.Done && r.State == ledger.Succeeded && !bytes.Equal(c.Outcome.Result, r.result) {
		d.rt.Fatalf("outcome of %s: %+v, want %q", id, c.Outcome, r.result)
	}
	if c.Answer == ledger.Mismatch {
		d.tickets = append(d.tickets, modelTicket{c.Ticket, id, me})
	}
	if !want.Write {
		return
	}
	if r == nil {
		r = &modelRow{Row: ledger.Row{Fingerprint: m.Fingerprint}}
		d.rows[id] = r
	}
	if want.Renew {
		r.errors = 0
	}
	r.State, r.Token, r.Attempts, r.Crashes = ledger.Pending, want.Token, want.Attempts, want.Crashes
	r.owner, r.later, r.result = me, false, nil
	if (d.Ranged || again) && c.Token >= want.Token { // it grows; by more than one if an answer was lost
		r.Token, want.Token = c.Token, c.Token
	}
	if c.Token != want.Token || c.Crashes != want.Crashes || len(c.Errors) != r.errors ||
		c.Answer == ledger.Run && c.Attempt != want.Attempts+1 {
		d.rt.Fatalf("claim of %s: %+v, want %+v", id, c, want)
	}
	d.tickets = append(d.tickets, modelTicket{c.Ticket, id, me})
}

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
	d.send(me, []modelTicket{ticket})
}

// settlement draws what becomes of a ticket.
func (d *differ) settlement(ticket modelTicket) ledger.Settlement {
	n := len(d.tickets)
	c := ledger.Claim{Ticket: ticket.ticket, Attempt: 1}
	var s ledger.Settlement
	switch rapid.IntRange(0, 3).Draw(d.rt, "kind") {
	case 0:
		s = succeed(c)
		if !d.Ranged || rapid.IntRange(0, 3).Draw(d.rt, "result") == 0 {
			s.Result = []byte(number(n))
		}
	case 1:
		m := d.entry(ticket.id)
		m.Delivery = []byte(rapid.SampledFrom(modelDeliveries).Draw(d.rt, "delivery"))
		s = fail(c, m)
	case 2:
		s = failedAttempt(c, "again")
	case 3:
		s = release(c)
		if rapid.Bool().Draw(d.rt, "later") {
			s.After = time.Hour
		}
	}
	return s
}

// send settles tickets of distinct messages in one call.
func (d *differ) send(me int, tickets []modelTicket) {
	settlements := make([]ledger.Settlement, len(tickets))
	for i, ticket := range tickets {
		settlements[i] = d.settlement(ticket)
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
	if seen != nil && s.Dead != nil {
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
	if effect == ledger.EffectWrite && s.Kind == ledger.Release {
		d.back[s.Ticket] = true
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
	r.owner = -1
	switch s.Kind {
	case ledger.Succeed:
		r.State, r.result = ledger.Succeeded, s.Result
	case ledger.Fail:
		r.State = ledger.Failed
	case ledger.Release:
		r.later = s.After > 0
		if s.Count {
			r.Attempts++
			r.errors++
		}
	}
}

// compare reads the row and compares all of it.
func (d *differ) compare(id string) {
	want := d.rows[id]
	got, err := d.Get(d.ctx, d.key(id))
	if d.Ranged && want != nil && d.inRange(id, want, got, err) {
		return
	}
	if want == nil {
		if err == nil {
			d.rt.Fatalf("a row nobody made: %s", summary(got))
		}
		return
	}
	if err != nil {
		d.rt.Fatalf("get %s: %v", id, err)
	}
	owner := ""
	if want.owner >= 0 {
		owner = d.owners[want.owner].ID()
	}
	if got.State != want.State || got.Token != want.Token || got.Owner != owner || got.Attempts != want.Attempts ||
		got.Crashes != want.Crashes || got.Fingerprint != want.Fingerprint && (!d.Ranged || !got.Fingerprint.IsZero()) || !bytes.Equal(got.Result, want.result) ||
		len(got.Errors) != want.errors && want.State == ledger.Pending || got.Due.IsZero() == want.later ||
		len(got.Archived) != len(d.archive[id]) {
		d.rt.Fatalf("row %s: %s\nwant %+v owner %q later %t result %q errors %d archive %v",
			id, summary(got), want.Row, owner, want.later, want.result, want.errors, d.archive[id])
	}
	for _, a := range got.Archived {
		if token, there := d.archive[id][string(a.Delivery)]; !there || token != a.Token {
			d.rt.Fatalf("archived %s under %d, want %v", a.Delivery, a.Token, d.archive[id])
		}
	}
}
