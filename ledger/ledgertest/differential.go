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
// and transactions are of several of them, and tokens have to grow and no more. Then the store is swept as well, and with
// [Store.Age] hours pass: logs lose what has expired and what lies below their first offset, are dropped, and come back.
//
// A step is one call that changes or asks something, whatever the number of its messages. With ACKLEDGER_LONG=1 sequences
// go on until there were 145,000 of them: more than a million for the stores and modes of this module.
func Differential(t *testing.T, open Open, steps int) {
	e := begin(t, open)
	base := e.scope
	round, made := 0, 0
	var again comeback
	sequence := func(rt *rapid.T) {
		round++
		e.scope = base + " " + number(round)
		d := newDiffer(e, rt, &again)
		actions := d.actions()
		for range rapid.IntRange(1, steps).Draw(rt, "steps") {
			rapid.SampledFrom(actions).Draw(rt, "action")()
			made++
		}
		d.end()
	}
	rapid.Check(t, sequence)
	for os.Getenv("ACKLEDGER_LONG") != "" && made < longSteps && !t.Failed() {
		rapid.Check(t, sequence) // with another seed
	}
	t.Logf("%d steps in %d sequences", made, round)
	if e.Ranged {
		again.check(t, round)
	}
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
	ended   map[ledger.Ticket]bool // its message succeeded by it
	passing                        // with ranges

	stretches []modelStretch
}

func newDiffer(e *env, rt *rapid.T, again *comeback) *differ {
	d := &differ{
		env: e, rt: rt, ids: modelIDs, rows: map[string]*modelRow{}, archive: map[string]map[string]uint64{},
		back: map[ledger.Ticket]bool{}, ended: map[ledger.Ticket]bool{}, passing: newPassing(again),
	}
	d.join()
	d.join()
	if d.Ranged {
		d.placed()
	}
	return d
}

// actions are what a step may be, some of them more often than others.
func (d *differ) actions() []func() {
	actions := []func(){d.claim, d.claim, d.claim, d.settle, d.settle, d.settle, d.declare, d.leave, d.join}
	if !d.Ranged {
		return actions
	}
	actions = append(actions, d.claim)
	if rapid.IntRange(0, 2).Draw(d.rt, "as one") == 0 { // what is claimed by itself leaves little to be claimed as one
		actions = []func(){d.declare, d.leave, d.join, d.settle, d.claimStretch, d.claimStretch, d.drain}
	}
	actions = append(actions, d.settleMany, d.settleMany, d.settleMany, d.commit, d.commit, d.drain, d.retain,
		d.claimStretch, d.claimStretch, d.settleStretch, d.settleStretch)
	if d.Rest != nil {
		actions = append(actions, d.rest)
	}
	if d.Age != nil {
		actions = append(actions, d.hours)
	}
	return actions
}

// end compares all that there may be, and leaves a shared ledger as it was found.
func (d *differ) end() {
	for _, id := range d.ids {
		if d.rows[id] != nil || d.floor[id] > 0 || !d.Ranged {
			d.compare(id)
		}
	}
	for _, o := range d.owners {
		_ = o.Leave(d.ctx)
	}
	if d.Ranged {
		d.dropLogs()
	}
}

type modelOwner struct {
	ledger.Owner
	fate *ledger.Holder // Live, Left or Dead
}

type modelRow struct {
	ledger.Row
	owner  int // index; -1: nobody
	due    bool
	later  bool // due is not over yet
	result []byte
	errors int
	until  time.Duration // it must be kept until then, once it has succeeded or failed
	ended  time.Duration // when it did
}

type modelTicket struct {
	ticket ledger.Ticket
	id     string
	owner  int
}

func (d *differ) join() {
	if len(d.owners) >= 6 && (!d.Ranged || len(d.live()) > 2) {
		return
	}
	o, err := d.Ledger.Join(d.ctx, longLease)
	if err != nil {
		d.rt.Fatalf("join: %v", err)
	}
	fate := ledger.Live
	d.owners = append(d.owners, modelOwner{o, &fate})
}

// live are the owners that are.
func (d *differ) live() (all []int) {
	for i, o := range d.owners {
		if *o.fate == ledger.Live {
			all = append(all, i)
		}
	}
	return all
}

// pick draws an owner; with ranges mostly one that is live.
func (d *differ) pick() int {
	all := d.live()
	if len(all) == 0 || !d.Ranged || rapid.IntRange(0, 5).Draw(d.rt, "whichever") == 0 {
		return rapid.IntRange(0, len(d.owners)-1).Draw(d.rt, "owner")
	}
	return rapid.SampledFrom(all).Draw(d.rt, "owner")
}

func (d *differ) declare() { d.declareOf(d.pick()) }

func (d *differ) declareOf(i int) {
	o := d.owners[i]
	if err := d.Declare(d.ctx, o.ID()); err != nil {
		d.rt.Fatalf("declare: %v", err)
	}
	if *o.fate == ledger.Live {
		*o.fate = ledger.Dead
	}
}

func (d *differ) leave() { d.leaveOf(d.pick()) }

func (d *differ) leaveOf(i int) {
	o := d.owners[i]
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
	window := d.window()
	for _, id := range rapid.Permutation(d.ids).Draw(d.rt, "ids")[:rapid.IntRange(1, min(len(d.ids), 12)).Draw(d.rt, "n")] {
		m := d.entry(id)
		m.Delivery = d.delivery(id)
		m.StampToken = uint64(max(0, rapid.IntRange(-4, 4).Draw(d.rt, "stamp")))
		m.KeepFailed = rapid.IntRange(0, 2).Draw(d.rt, "keep") == 0
		m.Parked = d.parks() && rapid.IntRange(0, 2).Draw(d.rt, "own copy") == 0
		m.Solo, m.Park = rapid.Bool().Draw(d.rt, "solo"), rapid.IntRange(0, 3).Draw(d.rt, "park") == 0
		if d.Ranged {
			m.Window = window
			if !d.place(&m) {
				continue
			}
		} else {
			m.Fingerprint = ledger.BodyFingerprint([]byte(rapid.SampledFrom(modelBodies).Draw(d.rt, "body")))
		}
		entries, ids = append(entries, m), append(ids, id)
	}
	if len(entries) == 0 {
		return
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
		d.used(ids[i])
		d.claimed(me, ids[i], entries[i], claims[i], lost)
	}
}

// claimed compares one answer with the model's, and carries the model on.
func (d *differ) claimed(me int, id string, m ledger.Entry, c ledger.Claim, again bool) {
	d.begunAnew(id, c)
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
		c.TookOver != want.TookOver || c.Held != want.Held || !d.Ranged && !again && c.First != want.First || (c.Wait > 0) != (want.Wait > 0) || c.Wait > want.Wait {
		d.rt.Fatalf("claim of %s by %d: %+v\nwant %+v\nof %+v", id, me, c, want, seen)
	}
	if c.Answer == ledger.Done && r.State == ledger.Succeeded && !bytes.Equal(c.Outcome.Result, r.result) &&
		(c.Outcome.Result != nil || !d.fades(id)) { // a result goes with its row
		d.rt.Fatalf("outcome of %s: %+v, want %q", id, c.Outcome, r.result)
	}
	if c.Answer == ledger.Mismatch {
		d.tickets = append(d.tickets, modelTicket{c.Ticket, id, me})
	}
	if !want.Write {
		if c.Answer == ledger.Done && d.fades(id) {
			d.compare(id) // it was asked for again, perhaps, and has a row again
		}
		return
	}
	if r == nil {
		r = &modelRow{Row: ledger.Row{Fingerprint: m.Fingerprint}}
		d.rows[id] = r
	}
	if want.Renew {
		r.errors, r.until = 0, max(r.until, d.clock+m.Window.Truncate(time.Hour))
	}
	if d.plain(id, r) { // as if never claimed, but that it may have a row
		r.until = min(r.until, d.clock+m.Window.Truncate(time.Hour))
	}
	restarts := d.grows(id, r, c.Token, again)
	r.State, r.Token, r.Attempts, r.Crashes = ledger.Pending, want.Token, want.Attempts, want.Crashes
	r.owner, r.due, r.later, r.result = me, false, false, nil
	if (d.Ranged || again) && c.Token >= want.Token || restarts { // it grows; by more than one if an answer was lost
		r.Token, want.Token = c.Token, c.Token
	}
	if c.Token != want.Token || c.Crashes != want.Crashes || len(c.Errors) != r.errors ||
		c.Answer == ledger.Run && c.Attempt != want.Attempts+1 {
		d.rt.Fatalf("claim of %s: %+v, want %+v", id, c, want)
	}
	d.tickets = append(d.tickets, modelTicket{c.Ticket, id, me})
}

// compare reads the row and compares all of it.
func (d *differ) compare(id string) {
	got, err := d.Get(d.ctx, d.key(id))
	if d.fades(id) {
		d.faded(id, got, err)
	}
	want := d.rows[id]
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
		got.Crashes != want.Crashes || (got.Parked != nil) != (want.Parked && want.State == ledger.Pending) || got.Fingerprint != want.Fingerprint && (!d.Ranged || !got.Fingerprint.IsZero()) || !bytes.Equal(got.Result, want.result) ||
		len(got.Errors) != want.errors && want.State == ledger.Pending || got.Due.IsZero() == want.due ||
		len(got.Archived) != len(d.archive[id]) {
		d.rt.Fatalf("row %s: %s\nwant %+v owner %q due %t result %q errors %d archive %v",
			id, summary(got), want.Row, owner, want.due, want.result, want.errors, d.archive[id])
	}
	for _, a := range got.Archived {
		if token, there := d.archive[id][string(a.Delivery)]; !there || token != a.Token {
			d.rt.Fatalf("archived %s under %d, want %v", a.Delivery, a.Token, d.archive[id])
		}
	}
}
