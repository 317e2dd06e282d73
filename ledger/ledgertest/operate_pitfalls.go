package ledgertest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/acts"
	"github.com/ackledger/ackledger/ledger"
)

// inPlace is the claim of a dead letter by a replay in place.
func inPlace(d ledger.DeadLetter) ledger.Entry {
	return ledger.Entry{
		Key: d.Key, Fingerprint: d.Fingerprint, Delivery: fmt.Appendf(nil, "replay:%d", d.Token), StampToken: d.Token, Window: window,
	}
}

// toReplay are the dead letters that a replay sends: failed by this very failure, or pending and free.
func (e *env) toReplay() (out []ledger.DeadLetter) {
	e.Helper()
	for _, d := range e.letters(ledger.Filter{Body: true}) {
		s := d.Status
		if !d.Superseded && (s.State == 0 || s.State == ledger.Failed && s.Token == d.Token || s.Free()) {
			out = append(out, d)
		}
	}
	return out
}

// Pitfall75 holds against this: a dead letter was replayed although its message had succeeded meanwhile, and its effect was done twice. The
// status says so before the send, and a copy that was sent already is acknowledged.
func Pitfall75(t *testing.T, open Open) {
	e := begin(t, open)
	o := e.owner()
	entry := e.entry("m")
	c := e.failed(o, entry)
	late := e.toReplay()
	if len(late) != 1 {
		e.Fatalf("%d to replay", len(late))
	}
	e.holds(o, succeed(e.want(o, copyOf(entry, 1, c.Token), ledger.Run)))
	if s := e.status(entry)[0]; s.State != ledger.Succeeded || s.Fingerprint != entry.Fingerprint {
		e.Errorf("status: %+v", s)
	}
	if n := len(e.toReplay()); n != 0 {
		e.Errorf("%d to replay", n)
	}
	e.want(o, copyOf(entry, 2, c.Token), ledger.Done)
	e.want(o, inPlace(late[0]), ledger.Done)
}

// Pitfall76 holds against this: two replays of one DLQ ran at once and handled messages twice; one was killed in the middle, and what it had in
// hand was lost. Whoever comes first runs it, the other one does not, and what the killed one held is listed again.
func Pitfall76(t *testing.T, open Open) {
	e := begin(t, open)
	o := e.owner()
	entries := e.entries(20)
	for _, entry := range entries {
		e.failed(o, entry)
	}
	killed, other := e.owner(), e.owner()
	list := e.toReplay()
	for i, d := range list {
		c := e.want(killed, inPlace(d), ledger.Run)
		if i%2 == 0 {
			e.holds(killed, succeed(c))
		}
	}
	for i, d := range list { // read before the other one claimed
		want := ledger.Busy
		if i%2 == 0 {
			want = ledger.Done
		}
		e.want(other, inPlace(d), want)
	}
	if n := len(e.toReplay()); n != 0 {
		e.Errorf("%d are listed while they are in somebody's hands", n)
	}
	e.declare(killed)
	again := e.toReplay()
	if len(again) != 10 {
		e.Fatalf("%d of 10 are listed after the kill", len(again))
	}
	for _, d := range again {
		e.holds(other, succeed(e.want(other, inPlace(d), ledger.Run)))
	}
	for i, s := range e.status(entries...) {
		if s.State != ledger.Succeeded {
			e.Errorf("message %d: %+v", i, s)
		}
	}
	if n := len(e.toReplay()); n != 0 {
		e.Errorf("%d are left", n)
	}
}

// Pitfall83 holds against this: a replay marked its dead letters as done before they were, and was killed. At whatever line it ends, the row is
// still failed and listed, or its copy was claimed.
func Pitfall83(t *testing.T, open Open) {
	e := begin(t, open)
	o := e.owner()
	entry := e.entry("m")
	token := e.failed(o, entry).Token
	lines := []func(){
		func() {
			d := e.toReplay()[0]
			if err := e.op().Audit(e.ctx, []ledger.AuditRecord{acts.DeadLetterRecord(&d, by, ledger.ActionReplay, "")}); err != nil {
				e.Fatal(err)
			}
		},
		func() { token = e.renew(entry, token).Token },
		func() { token = e.renew(entry, token).Token },
	}
	for i, line := range lines {
		line()
		d := e.toReplay()
		if len(d) != 1 || d[0].Token != token || d[0].Status.State != ledger.Failed || string(d[0].Body) != "body of m#1" {
			e.Fatalf("killed after line %d: %+v", i, d)
		}
	}
	dead := e.owner()
	e.want(dead, copyOf(entry, 1, token), ledger.Run)
	e.declare(dead)
	if d := e.toReplay(); len(d) != 1 {
		e.Fatalf("killed after the claim: %+v", d)
	}
	c := e.want(o, copyOf(entry, 2, token), ledger.Run)
	if c.Generation != 2 {
		e.Errorf("generation %d, want 2: it was renewed twice", c.Generation)
	}
	e.holds(o, succeed(c))
	if d := e.toReplay(); len(d) != 0 {
		e.Errorf("still listed: %+v", d)
	}
}

// Pitfall97 holds against this: a replay whose bug still lived chased its own failures and never ended. A list is of what was there when it
// began.
func Pitfall97(t *testing.T, open Open) {
	e := begin(t, open)
	o := e.owner()
	const n = 600 // more than a page
	for part := range slices.Chunk(e.entries(n), 200) {
		at := 0
		e.hold(o, e.allRun(o, part), func(c ledger.Claim) ledger.Settlement { at++; return fail(c, part[at-1]) })
	}
	runs := 0
	for d, err := range e.op().DeadLetters(e.ctx, ledger.Filter{Scope: e.scope}) {
		if err != nil {
			e.Fatal(err)
		}
		if runs++; runs > n {
			e.Fatalf("%d runs of %d", runs, n)
		}
		entry := inPlace(d)
		e.failed(o, entry)
	}
	if runs != n {
		e.Errorf("%d runs of %d", runs, n)
	}
	if got := len(e.toReplay()); got != n {
		e.Errorf("%d to replay, want %d: each by its last failure", got, n)
	}
}

// Pitfall103 holds against this: a dead letter whose row was gone was moved twice, since the replay was killed before its delete, and ran
// twice. Both copies carry one stamp, so they meet one row.
func Pitfall103(t *testing.T, open Open) {
	e := begin(t, open)
	o := e.owner()
	entry := e.entry("m")
	c := e.failed(o, entry)
	if err := e.Drop(e.ctx, entry.Key); err != nil {
		e.Fatal(err)
	}
	d := e.toReplay()
	if len(d) != 1 || d[0].Status.State != 0 || d[0].Token != c.Token {
		e.Fatalf("listed: %+v", d)
	}
	first := e.want(o, copyOf(entry, 1, c.Token), ledger.Run)
	e.want(e.owner(), copyOf(entry, 2, c.Token), ledger.Busy)
	e.holds(o, succeed(first))
	e.want(o, copyOf(entry, 2, c.Token), ledger.Done)
}

// Pitfall116 holds against this: a DLQ topic, from which nothing can be deleted, was replayed while the bug lived, and each run doubled the
// copies. One failure is run again once, however often its copy is sent.
func Pitfall116(t *testing.T, open Open) {
	e := begin(t, open)
	o := e.owner()
	entry := e.entry("m")
	topic := []uint64{e.failed(o, entry).Token} // the failing claims' tokens, on the copies
	copies, runs := 0, 0
	for range 5 {
		for _, token := range topic[:len(topic):len(topic)] {
			copies++
			again := copyOf(entry, copies, token)
			if s := e.status(entry)[0]; s.Token > token {
				e.want(o, again, ledger.Done) // sent all the same
				continue
			}
			runs++
			topic = append(topic, e.failed(o, again).Token)
		}
	}
	if runs != 5 || len(topic) != 6 {
		e.Errorf("%d runs and %d dead letters after 5 replays, want 5 and 6", runs, len(topic))
	}
	if d := e.toReplay(); len(d) != 1 || d[0].Token != topic[5] {
		e.Errorf("to replay: %+v", d)
	}
}

// Pitfall117 holds against this: a replay in place was killed, and the dead-letter list was "empty" though a message was in nobody's hands. What
// is pending without a live owner is listed, also while no peer has declared the owner dead, and runs again.
func Pitfall117(t *testing.T, open Open) {
	e := begin(t, open)
	o := e.owner()
	held, overdue := e.entry("held"), e.entry("overdue")
	e.failed(o, held)
	e.failed(o, overdue)
	gone, late := e.owner(), e.join(2*time.Second)
	for _, d := range e.toReplay() {
		if d.Key.Sum() == held.Key.Sum() {
			e.want(gone, inPlace(d), ledger.Run)
		} else {
			e.want(late, inPlace(d), ledger.Run)
		}
	}
	e.declare(gone)
	e.eventually("both are listed again", func() bool { return len(e.toReplay()) == 2 })
	for _, d := range e.toReplay() {
		if d.Status.State != ledger.Pending || string(d.Body) != "body of "+string(d.Delivery) {
			e.Errorf("listed: %+v", d)
		}
	}
	e.want(o, inPlace(e.toReplay()[0]), ledger.Run)
}
