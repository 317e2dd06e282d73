package ledgertest

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// parkCases are the rules of messages that are parked.
var parkCases = []testCase{
	{"InCare", parkInCare},
	{"Whole", parkWhole},
	{"DueAndHidden", parkDue},
	{"InOrderAndBounds", parkOrder},
	{"GoesWithItsEnd", parkEnds},
	{"GivenBack", parkGivenBack},
	{"Repeated", parkRepeated},
	{"TakenOver", parkTakenOver},
	{"CrashesCount", parkCrashes},
	{"InTx", parkInTx},
	{"AnotherBody", parkMismatch},
	{"RowGone", parkRowGone},
	{"FailedElsewhere", parkFailedElsewhere},
	{"Outlives", parkOutlives},
	{"OutlivesAgain", parkOutlivesAgain},
	{"InOneCall", parkInOneCall},
	{"TwoThatLook", parkTwo},
	{"Invalid", parkInvalid},
}

// RunParked is the suite of parked messages, of ledgers that are [ledger.Parking], on rows and on messages that are held in ranges.
func RunParked(t *testing.T, open Open) {
	for name, open := range map[string]Open{"Rows": open, "Ranges": Ranged(open)} {
		for _, c := range append(slices.Clone(parkCases), laneCases...) {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				c.run(begin(t, open))
			})
		}
	}
}

// Pitfall222 is a fault: the broker brought a parked message again, since its acknowledgement was lost, and it ran or was held.
func Pitfall222(t *testing.T, open Open) { parkInCare(begin(t, open)) }

// Pitfall223 is a fault: a repeated settlement that parks met a row that had only been released, and held.
func Pitfall223(t *testing.T, open Open) { parkRepeated(begin(t, open)) }

// Pitfall224 is a fault: what was left of a parked message ran it again after another copy of it had failed for good.
func Pitfall224(t *testing.T, open Open) { parkFailedElsewhere(begin(t, open)) }

// Pitfall225 is a fault: a message succeeded in a transaction of its handler's, and stayed parked.
func Pitfall225(t *testing.T, open Open) { parkInTx(begin(t, open)) }

// soon is a wait that a case sees the end of.
const soon = 50 * time.Millisecond

func (e *env) parking() ledger.Parking {
	e.Helper()
	p, ok := e.Ledger.(ledger.Parking) // a Join has found out what is there
	if !ok || !p.Parks() {
		e.Fatalf("%T parks nothing", e.Ledger)
	}
	return p
}

// park is a settlement that parks the entry's delivery, after an attempt that counts.
func park(c ledger.Claim, entry ledger.Entry, after time.Duration) ledger.Settlement {
	s := fail(c, entry)
	s.Kind, s.After, s.Count = ledger.Park, after, true
	s.Failure = ledger.AttemptError{Attempt: c.Attempt, Kind: ledger.KindError, Error: "later", At: time.Unix(1700000000, 0)}
	s.Dead.Kind, s.Dead.Sent = "", false
	return s
}

// parked claims a message and parks it.
func (e *env) parked(o ledger.Owner, entry ledger.Entry, after time.Duration) ledger.Claim {
	e.Helper()
	c := e.want(o, entry, ledger.Run)
	e.holds(o, park(c, entry, after))
	return c
}

func (e *env) due(hide time.Duration) ledger.DueReply {
	e.Helper()
	return e.dueAtMost(ledger.MaxDue, 1<<30, hide)
}

func (e *env) dueAtMost(most int, size int64, hide time.Duration) ledger.DueReply {
	e.Helper()
	reply, err := e.parking().Due(e.ctx, ledger.DueRequest{Scope: e.scope, Most: most, Bytes: size, Hide: hide})
	if err != nil {
		e.Fatalf("due: %v", err)
	}
	return reply
}

// untilDue polls until n messages are due at once, which then are hidden for so long.
func (e *env) untilDue(n int, hide time.Duration) (list []ledger.Parked) {
	e.Helper()
	e.eventually(fmt.Sprintf("%d messages are due", n), func() bool {
		list = append(list, e.due(hide).Messages...)
		return len(list) >= n
	})
	if len(list) != n {
		e.Fatalf("%d messages are due, want %d", len(list), n)
	}
	return list
}

// fromCare is the entry of the ledger's own copy.
func fromCare(entry ledger.Entry) ledger.Entry {
	entry.Parked, entry.Copy, entry.Ranged = true, true, false
	return entry
}

func (e *env) wantParked(n int64) {
	e.Helper()
	s, err := e.parking().ParkedIn(e.ctx, e.scope)
	if err != nil || s.Messages != n || (s.Bytes > 0) != (n > 0) || n == 0 && s.Overdue != 0 {
		e.Fatalf("%+v, %v; want %d parked", s, err, n)
	}
}

// parkInCare: the broker's copies of what is parked are to be acknowledged, whoever asks, before it is due, afterwards, and while it
// runs.
func parkInCare(e *env) {
	o, other, m := e.owner(), e.owner(), e.entry("m")
	another := m
	another.Delivery = []byte("m#2")
	inCare := func() {
		e.Helper()
		before := e.record(m)
		for _, asks := range []ledger.Owner{o, other} {
			for _, entry := range []ledger.Entry{m, another} {
				if c := e.want(asks, entry, ledger.InCare); c.Wait != 0 || c.Outcome.State != 0 {
					e.Fatalf("%+v", c)
				}
			}
		}
		e.same(before)
	}
	e.parked(o, m, soon)
	inCare()
	e.untilDue(1, time.Hour)
	inCare()
	c := e.want(other, fromCare(m), ledger.Run)
	if c.Token != 2 || c.Attempt != 2 || len(c.Errors) != 1 || c.Errors[0].Error != "later" || c.TookOver || c.Crashes != 0 {
		e.Fatalf("the second attempt: %+v", c)
	}
	inCare()
	e.holds(other, succeed(c))
	for _, entry := range []ledger.Entry{m, another, fromCare(m)} {
		e.want(o, entry, ledger.Done)
	}
	e.wantParked(0)
}

// parkWhole: what comes back is what was parked: nil is not empty, headers keep their order, and a position stays.
func parkWhole(e *env) {
	o := e.owner()
	bodies := [][]byte{nil, {}, []byte("\x00body\xff"), bytes.Repeat([]byte("x"), 200_000)}
	headers := [][]ledger.Header{nil, nil, {{Name: "b", Value: nil}, {Name: "a", Value: []byte{}}, {Name: "b", Value: []byte("\xff"), Type: "Binary.x"}}, nil}
	entries := e.entries(len(bodies))
	want := map[string]*ledger.Archive{}
	for i, m := range entries {
		s := park(e.want(o, m, ledger.Run), m, soon)
		s.Dead.Body, s.Dead.Headers, s.Dead.Group, s.Dead.Attempts = bodies[i], headers[i], "group \xff", 3
		e.holds(o, s)
		want[string(m.Key.ID)] = s.Dead
	}
	for _, p := range e.untilDue(len(bodies), time.Hour) {
		w := want[string(p.Key.ID)].Clone()
		if p.Key.Sum() != w.Key.Sum() || p.Due.IsZero() || p.At.IsZero() || p.Due.Before(p.At) {
			e.Fatalf("%v, due %v, parked %v", p.Key, p.Due, p.At)
		}
		if (p.Key.Pos == nil) != (w.Key.Pos == nil) || p.Key.Pos != nil && (p.Key.Pos.Offset != w.Key.Pos.Offset || p.Key.Pos.Log != w.Key.Pos.Log) {
			e.Fatalf("position %+v, want %+v", p.Key.Pos, w.Key.Pos)
		}
		got := p.Clone()
		got.Key, w.Key = ledger.Key{}, ledger.Key{}
		w.SentAt, got.SentAt = w.SentAt.UTC(), got.SentAt.UTC()
		if !reflect.DeepEqual(got, w) {
			e.Fatalf("%q\ngot  %.300v\nwant %.300v", p.Key.ID, got, w)
		}
	}
}

// parkDue: nothing is due before its time, and what was returned comes again once it is no longer hidden, unless it runs.
func parkDue(e *env) {
	o, m := e.owner(), e.entry("m")
	if reply := e.due(time.Hour); len(reply.Messages) != 0 || reply.Wait >= 0 {
		e.Fatalf("nothing is parked: %+v", reply)
	}
	e.parked(o, m, time.Hour)
	if reply := e.due(time.Hour); len(reply.Messages) != 0 || reply.Wait <= 59*time.Minute || reply.Wait > time.Hour {
		e.Fatalf("due in an hour: %+v", reply)
	}
	e.wantParked(1)
	late := e.entry("late")
	e.parked(o, late, soon)
	e.untilDue(1, 2*soon)
	e.untilDue(1, 2*soon)
	c := e.want(o, fromCare(late), ledger.Run)
	time.Sleep(3 * soon) // nothing is to happen
	if reply := e.due(time.Hour); len(reply.Messages) != 0 {
		e.Fatalf("it runs: %+v", reply)
	}
	e.holds(o, succeed(c))
	e.wantParked(1)
}

// parkOrder: what has been due for longest comes first, no more than is asked for, and what is left is due at once.
func parkOrder(e *env) {
	const step = 20 * time.Millisecond
	o, entries := e.owner(), e.entries(5)
	claims, sets := e.claimAll(o, entries), make([]ledger.Settlement, 5)
	for i, m := range entries {
		sets[i] = park(claims[i], m, time.Duration(5-i)*step)
		sets[i].Dead.Body = bytes.Repeat([]byte("x"), 1000)
	}
	for _, err := range e.settleAll(o, sets) {
		if err != nil {
			e.Fatal(err)
		}
	}
	e.eventually("all are due", func() bool {
		s, err := e.parking().ParkedIn(e.ctx, e.scope)
		if err != nil {
			e.Fatal(err)
		}
		return s.Overdue > 5*step
	})
	var got []string
	take := func(reply ledger.DueReply, n int, more bool) {
		e.Helper()
		if len(reply.Messages) != n || (reply.Wait == 0) != more {
			e.Fatalf("%d messages, wait %v; want %d, and more due: %v", len(reply.Messages), reply.Wait, n, more)
		}
		for _, p := range reply.Messages {
			got = append(got, string(p.Key.ID))
		}
	}
	take(e.dueAtMost(2, 1<<30, time.Hour), 2, true)
	take(e.dueAtMost(10, 1, time.Hour), 1, true)
	take(e.dueAtMost(10, 1999, time.Hour), 1, true)
	take(e.dueAtMost(10, 1<<30, time.Hour), 1, false)
	for i, m := range entries {
		if got[4-i] != string(m.Key.ID) {
			e.Fatalf("due in the order %q", got)
		}
	}
}

// parkEnds: with a message's end what was parked goes, and a failure archives it as ever.
func parkEnds(e *env) {
	o, entries := e.owner(), e.entries(3)
	for _, m := range entries {
		e.parked(o, m, soon)
	}
	e.untilDue(3, time.Hour)
	claims := make([]ledger.Claim, 3)
	for i, m := range entries {
		claims[i] = e.want(o, fromCare(m), ledger.Run)
	}
	e.holds(o, succeed(claims[0]))
	withResult := succeed(claims[1])
	withResult.Result = []byte("receipt")
	e.holds(o, withResult)
	e.holds(o, fail(claims[2], entries[2]))
	e.wantParked(0)
	e.holds(o, succeed(claims[0]))
	e.holds(o, fail(claims[2], entries[2]))
	if r := e.record(entries[2]); r.State != ledger.Failed || len(r.Archived) != 1 || r.Attempts != 1 {
		e.Fatal(summary(r))
	}
	for _, m := range entries {
		e.want(o, m, ledger.Done)
		e.want(o, fromCare(m), ledger.Done)
	}
}

// parkGivenBack: what is given back stays parked, whole, and is due when it was said.
func parkGivenBack(e *env) {
	o, m := e.owner(), e.entry("m")
	e.parked(o, m, soon)
	first := e.untilDue(1, time.Hour)[0]
	e.holds(o, release(e.want(o, fromCare(m), ledger.Run)))
	e.untilDue(1, time.Hour) // at once, however long it was hidden
	again := failedAttempt(e.want(o, fromCare(m), ledger.Run), "once more")
	again.After = 2 * time.Second
	e.holds(o, again)
	e.holds(o, again)
	if reply := e.due(time.Hour); len(reply.Messages) != 0 || reply.Wait <= 0 || reply.Wait > again.After {
		e.Fatalf("given back for %v: %+v", again.After, reply)
	}
	e.want(o, m, ledger.InCare)
	last := e.untilDue(1, time.Hour)[0]
	if !bytes.Equal(last.Body, first.Body) || !last.At.Equal(first.At) {
		e.Fatalf("%+v became %+v", first, last)
	}
	c := e.want(o, fromCare(m), ledger.Run)
	if c.Token != 4 || c.Attempt != 3 || len(c.Errors) != 2 {
		e.Fatalf("the third attempt: %+v", c)
	}
	longer := park(c, m, soon)
	longer.Dead.Body = []byte("another text")
	e.holds(o, longer)
	if p := e.untilDue(1, time.Hour)[0]; string(p.Body) != "another text" {
		e.Fatalf("parked anew: %q", p.Body)
	}
	e.wantParked(1)
}

// parkRepeated: a settlement whose answer was lost holds, as long as the message is parked by it. A plain release is none.
func parkRepeated(e *env) {
	o, m := e.owner(), e.entry("m")
	c := e.parked(o, m, soon)
	before := e.record(m)
	e.holds(o, park(c, m, time.Hour))
	e.same(before)
	e.lost(o, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.RecordStep, Step: &ledger.Step{Name: "late"}})
	e.untilDue(1, time.Hour)
	e.holds(o, park(c, m, time.Hour))
	next := e.want(o, fromCare(m), ledger.Run)
	e.lost(o, park(c, m, time.Hour))
	e.holds(o, succeed(next))
	e.lost(o, park(c, m, time.Hour))

	released := e.inRow(o, e.entry("released"))
	e.holds(o, release(released))
	e.lost(o, park(released, e.entry("released"), time.Hour))
	e.wantParked(0)
	e.want(o, e.entry("released"), ledger.Run)
}

// parkTakenOver: whoever has lost a message parks it no more.
func parkTakenOver(e *env) {
	o, other, m := e.owner(), e.owner(), e.entry("m")
	c := e.want(o, m, ledger.Run)
	e.declare(o)
	taken := e.want(other, m, ledger.Run)
	e.lost(o, park(c, m, time.Hour))
	e.wantParked(0)
	e.holds(other, park(taken, m, time.Hour))
	e.wantParked(1)
}
