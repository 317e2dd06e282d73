package ledgertest

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// later lets time pass, and returns an owner that lives then. The one before may be overdue.
func (e *env) later(o ledger.Owner, d time.Duration) ledger.Owner {
	e.Helper()
	e.leave(o)
	if err := e.Age(e.ctx, d); err != nil {
		e.Fatal(err)
	}
	return e.owner()
}

// daily asks for the record of an offset for a day, in a log that begins at first.
func (e *env) daily(epoch int32, offset, first int64) ledger.Entry {
	m := e.at(epoch, offset, -1)
	m.Window, m.Key.Pos.First = 24*time.Hour, first
	return m
}

// retried has a message of a range fail some times and then succeed, in its row. It returns its last claim.
func (e *env) retried(o ledger.Owner, m ledger.Entry, times int) ledger.Claim {
	e.Helper()
	c := e.want(o, m, ledger.Run)
	for range times {
		e.holds(o, failedAttempt(c, "not yet"))
		c = e.want(o, m, ledger.Run)
	}
	e.holds(o, succeed(c))
	return c
}

// beginsAbove has a log go on and begin at 50, and hours pass, so that what it has below is cut off.
func (e *env) beginsAbove(o ledger.Owner) ledger.Owner {
	e.Helper()
	for i, first := range []int64{0, 50, 50, 50} {
		e.holds(o, succeed(e.want(o, e.daily(0, 100+int64(i), first), ledger.Run)))
		o = e.later(o, 65*time.Minute)
		e.sweep(time.Millisecond)
	}
	return o
}

// copied is another copy of a message, that somebody has sent.
func copied(m ledger.Entry) ledger.Entry {
	m.Ranged, m.Copy, m.Delivery = false, true, []byte("a copy")
	return m
}

// Pitfall149 holds against this: a claim told that its log begins above what was finished long ago, and that was dropped at once. What
// a worker had in hand from there, since its group had been set back, was new, and ran again.
func Pitfall149(t *testing.T, open Open) {
	e := begin(t, Ranged(open))
	o := e.owner()
	e.hold(o, e.allRun(o, []ledger.Entry{e.daily(0, 1, 0), e.daily(0, 2, 0), e.daily(0, 3, 0)}), succeed)
	e.holds(o, succeed(e.want(o, e.daily(1, 4, 0), ledger.Run))) // of the next leader epoch
	o = e.later(o, 61*time.Minute)
	e.want(o, e.daily(0, 1, 0), ledger.Done)
	e.holds(o, succeed(e.want(o, e.daily(1, 60, 50), ledger.Run)))
	e.want(o, e.daily(0, 2, 0), ledger.Done)
	o = e.later(o, 61*time.Minute)
	e.holds(o, succeed(e.want(o, e.daily(1, 61, 50), ledger.Run)))
	e.want(o, e.daily(0, 3, 0), ledger.Run) // an hour later it has gone
}

// Pitfall150 holds against this: the range that spoke for a message was cut off with its log's beginning, and the message was reopened
// and succeeded again. Its row went ten minutes later, as if the range were there, and another copy ran.
func Pitfall150(t *testing.T, open Open) {
	e := begin(t, Ranged(open))
	o := e.owner()
	m := e.daily(0, 7, 0)
	c := e.want(o, m, ledger.Run)
	e.holds(o, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed, Result: []byte("result")})
	o = e.beginsAbove(o)
	e.want(o, m, ledger.Done)
	e.reopen(ledger.ReopenRequest{Filter: ledger.Filter{IDs: [][]byte{m.Key.ID}}})
	e.holds(o, succeed(e.want(o, copied(m), ledger.Run)))
	o = e.later(o, 15*time.Minute)
	e.sweep(time.Millisecond)
	e.want(o, copied(m), ledger.Done)
}

// Pitfall151 holds against this: a message of a range that had succeeded in its row was reopened, and had the ten minutes that its row
// was to stay for its window. It failed for good and was purged, and half an hour later its delivery was new, and ran again.
func Pitfall151(t *testing.T, open Open) {
	for _, beside := range []bool{false, true} { // one in the same range is in hand, so that the range is open still
		e := begin(t, Ranged(open))
		o := e.owner()
		m := e.daily(0, 7, 0)
		if beside {
			c := e.allRun(o, []ledger.Entry{m, e.daily(0, 8, 0)})[0]
			e.holds(o, failedAttempt(c, "not yet"))
		}
		e.retried(o, m, 1)
		e.reopen(ledger.ReopenRequest{Filter: ledger.Filter{IDs: [][]byte{m.Key.ID}}})
		if left := time.Until(e.record(m).Expiry); left < 23*time.Hour {
			e.Errorf("beside another %t: what was reopened expires in %s", beside, left)
		}
		e.holds(o, fail(e.want(o, m, ledger.Run), m))
		e.want(o, m, ledger.Done)
		if r := e.purge(ledger.PurgeRequest{}); r.Purged != 1 {
			e.Fatalf("%+v", r)
		}
		o = e.later(o, 30*time.Minute)
		e.sweep(time.Millisecond)
		e.want(o, m, ledger.Done)
	}
}

// Pitfall152 holds against this: a message had tokens in its row above those of its range, and both had gone. A copy of it got the
// range's next token, below one that handlers had seen.
func Pitfall152(t *testing.T, open Open) {
	e := begin(t, Ranged(open))
	o := e.owner()
	m := e.daily(0, 7, 0)
	last := e.retried(o, m, 9)
	o = e.beginsAbove(o)
	if c := e.want(o, copied(m), ledger.Run); c.Token <= last.Token {
		e.Errorf("token %d after %d", c.Token, last.Token)
	}
}

// Pitfall154 holds against this: the pass that dissolved a dead owner's range counted what was left of it as succeeded, and the one that
// removed the row of a message in a range counted it off the range, too.
func Pitfall154(t *testing.T, open Open) {
	e := begin(t, Ranged(open))
	o := e.owner()
	e.holds(o, succeed(e.want(o, e.daily(0, 1, 0), ledger.Run)))
	e.retried(o, e.daily(0, 2, 0), 1)
	count := func(pending, succeeded int64) {
		e.Helper()
		e.sweep(time.Millisecond)
		for _, s := range e.stats().Scopes {
			if s.Scope == e.scope && (s.Pending != pending || s.Succeeded != succeeded) {
				e.Errorf("%d pending, %d succeeded, want %d and %d", s.Pending, s.Succeeded, pending, succeeded)
			}
		}
	}
	count(0, 2)
	for range 3 {
		o = e.later(o, 6*time.Minute)
		count(0, 2)
	}
	e.allRun(o, []ledger.Entry{e.daily(0, 11, 0), e.daily(0, 12, 0)})
	e.declare(o)
	for range 2 {
		count(2, 2)
	}
}
