package ledgertest

import (
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// suspect asks without Solo and checks that nothing is written.
func suspect(e *env, m ledger.Entry) {
	e.Helper()
	before := e.record(m)
	m.Solo = false
	if c := e.want(e.owner(), m, ledger.Busy); !c.Suspect {
		e.Fatalf("busy: %+v, want suspect", c)
	}
	e.same(before)
}

func claimSuspect(e *env) {
	m := e.entry("a")
	e.crash(m)
	o := e.owner()
	if c := e.want(o, m, ledger.Run); c.Crashes != 1 { // one crash makes no suspect
		e.Fatalf("run: %+v", c)
	}
	e.declare(o)
	suspect(e, m)
	m.Solo = true
	o = e.owner()
	if c := e.want(o, m, ledger.Run); c.Crashes != ledger.SuspectCrashes || c.Token != 3 || !c.TookOver {
		e.Fatalf("run: %+v", c)
	}
	e.leave(o) // left on purpose: still a suspect, no further crash
	suspect(e, m)
	if c := e.want(e.owner(), m, ledger.Run); c.Crashes != ledger.SuspectCrashes || !c.TookOver {
		e.Fatalf("run: %+v", c)
	}
}

func claimSuspectReleased(e *env) {
	m := e.entry("a")
	e.crash(m)
	e.crash(m)
	m.Solo = true
	o := e.owner()
	e.holds(o, release(e.want(o, m, ledger.Run)))
	suspect(e, m)
}

func claimSuspectFailed(e *env) {
	m := e.entry("a")
	e.crash(m)
	e.crash(m)
	m.Solo = true
	o := e.owner()
	e.holds(o, fail(e.want(o, m, ledger.Run), m))
	m.Delivery = []byte("a#2")
	suspect(e, m)
	if c := e.want(o, m, ledger.Run); c.Crashes != 2 || c.Attempt != 1 {
		e.Fatalf("run: %+v", c)
	}
}

func claimOldStamp(e *env) {
	o, m := e.owner(), e.entry("a")
	e.holds(o, release(e.want(o, m, ledger.Run)))
	m.StampToken = 77 // a stamp says nothing of a pending row
	c := e.want(o, m, ledger.Run)
	e.holds(o, fail(c, m)) // failed under token 2; later, if the first one was of a range
	before := e.record(m)
	for i, token := range []uint64{c.Token - 1, c.Token + 1, 1 << 62} {
		m.Delivery, m.StampToken = []byte("copy "+number(i)), token
		if c := e.want(o, m, ledger.Done); c.Outcome.State != ledger.Failed {
			e.Fatalf("stamp %d: %+v", token, c)
		}
	}
	e.same(before)
	m.Delivery, m.StampToken = []byte("the copy of this failure"), c.Token
	c = e.want(o, m, ledger.Run)
	e.holds(o, fail(c, m)) // failed under the next one
	m.Delivery, m.StampToken = []byte("unstamped"), 0
	e.want(o, m, ledger.Run)
}

// Whoever keeps failures gets what came of the message, and does not run it, unless the delivery is a redrive of that failure or an
// operator has reopened it.
func claimKeepFailed(e *env) {
	o, m := e.owner(), e.entry("a")
	m.KeepFailed = true
	s := fail(e.want(o, m, ledger.Run), m)
	s.Result = []byte("no such account")
	e.holds(o, s)
	for i, token := range []uint64{0, 7} {
		m.Delivery, m.StampToken = []byte("again "+number(i)), token
		if c := e.want(o, m, ledger.Done); c.Outcome.State != ledger.Failed || string(c.Outcome.Result) != "no such account" {
			e.Fatalf("stamp %d: %+v", token, c.Outcome)
		}
	}
	m.Delivery, m.StampToken = []byte("redriven"), 1
	e.holds(o, fail(e.want(o, m, ledger.Run), m)) // without a result
	m.Delivery, m.StampToken = []byte("again"), 0
	if c := e.want(o, m, ledger.Done); c.Outcome.Result != nil {
		e.Fatalf("the result of the failure before: %+v", c.Outcome)
	}
	m.KeepFailed = false
	if c := e.want(o, m, ledger.Run); c.Attempt != 1 || c.Token != 3 {
		e.Fatalf("run: %+v", c)
	}
}

func claimOldStampSuspect(e *env) {
	m := e.entry("a")
	e.crash(m)
	e.crash(m)
	m.Solo = true
	o := e.owner()
	e.holds(o, fail(e.want(o, m, ledger.Run), m))
	m.Delivery, m.StampToken = []byte("a#2"), 1
	suspect(e, m)
	e.want(o, m, ledger.Done)
}

func claimReleased(e *env) {
	a, b, m := e.owner(), e.owner(), e.entry("a")
	c := e.want(a, m, ledger.Run)
	e.holds(a, failedAttempt(c, "no route"))
	c = e.want(b, m, ledger.Run)
	if c.Token != 2 || c.Attempt != 2 || c.Crashes != 0 || c.TookOver || len(c.Errors) != 1 || c.Errors[0].Error != "no route" {
		e.Fatalf("run: %+v", c)
	}
	e.holds(b, release(c)) // uncounted
	if c = e.want(a, m, ledger.Run); c.Token != 3 || c.Attempt != 2 || len(c.Errors) != 1 {
		e.Fatalf("run: %+v", c)
	}
}

func claimMine(e *env) {
	o, m := e.owner(), e.entry("a")
	first := e.want(o, m, ledger.Run)
	second := e.want(o, m, ledger.Run)
	if second.Token != 2 || second.Attempt != 1 || second.Crashes != 0 || second.TookOver {
		e.Fatalf("run: %+v", second)
	}
	e.lost(o, succeed(first))
	e.lost(o, release(first))
	e.holds(o, succeed(second))
}

func claimLeft(e *env) {
	a, b, m := e.owner(), e.owner(), e.entry("a")
	e.want(a, m, ledger.Run)
	e.leave(a)
	c := e.want(b, m, ledger.Run)
	if c.Token != 2 || c.Crashes != 0 || !c.TookOver || c.Attempt != 1 {
		e.Fatalf("run: %+v", c)
	}
	if r := e.record(m); r.Owner != b.ID() || r.Crashes != 0 || r.Attempts != 0 {
		e.Fatalf("row: %s", summary(r))
	}
}

func claimDead(e *env) {
	a, b, m := e.owner(), e.owner(), e.entry("a")
	e.want(a, m, ledger.Run)
	at := e.record(m)
	e.declare(a)
	c := e.want(b, m, ledger.Run)
	if c.Token != 2 || c.Crashes != 1 || !c.TookOver || c.Attempt != 1 {
		e.Fatalf("run: %+v", c)
	}
	r := e.record(m)
	if r.Owner != b.ID() || r.Crashes != 1 || r.Attempts != 0 || !r.At.Equal(at.At) || !r.Expiry.Equal(at.Expiry) {
		e.Fatalf("row: %s", summary(r))
	}
}

func claimRedrive(e *env) {
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	e.holds(o, failedAttempt(c, "one"))
	c = e.want(o, m, ledger.Run)
	e.holds(o, fail(c, m))
	failed := e.record(m)
	m.Delivery, m.Window = []byte("a#2"), 2*window
	c = e.want(o, m, ledger.Run)
	if c.Token != 3 || c.Attempt != 1 || c.Crashes != 0 || c.TookOver || len(c.Errors) != 0 {
		e.Fatalf("run: %+v", c)
	}
	r := e.record(m)
	if r.State != ledger.Pending || r.Attempts != 0 || len(r.Errors) != 0 || len(r.Archived) != 1 || r.Owner != o.ID() {
		e.Fatalf("row: %s", summary(r))
	}
	if r.At.Before(failed.At) || r.Expiry.Sub(r.At) < 2*window-time.Second || !r.Expiry.After(failed.Expiry) {
		e.Fatalf("a redrive has a new expiry: %s, was %s", r.Expiry, failed.Expiry)
	}
	e.holds(o, fail(c, m))
	m.Delivery, m.Window = []byte("a#3"), window/2
	c = e.want(o, m, ledger.Run)
	if again := e.record(m); !again.Expiry.Equal(r.Expiry) || !again.At.After(r.At) {
		e.Fatalf("a redrive by somebody with a shorter window: the expiry is %s, was %s", again.Expiry, r.Expiry)
	}
	e.holds(o, succeed(c))
	e.want(o, m, ledger.Done)
}

func claimRedriveCrashes(e *env) {
	m := e.entry("a")
	for range ledger.CrashLimit {
		e.crash(m)
	}
	o := e.owner()
	e.holds(o, fail(e.want(o, m, ledger.Spent), m))
	m.Delivery, m.Solo = []byte("a#2"), true
	if c := e.want(o, m, ledger.Run); c.Crashes != ledger.SuspectCrashes || c.Attempt != 1 {
		e.Fatalf("run: %+v, want %d crashes kept", c, ledger.SuspectCrashes)
	}
	if r := e.record(m); r.Crashes != ledger.SuspectCrashes {
		e.Fatalf("row: %s", summary(r))
	}
}

func claimBatch(e *env) {
	a, b := e.owner(), e.owner()
	for _, n := range []int{1, 2, 3, 1000} {
		e.scope += "+"
		all := e.entries(n)
		want := make([]ledger.Answer, n)
		var settlements []ledger.Settlement
		for i, c := range e.claimAll(a, all) {
			if c.Answer != ledger.Run || c.Ticket.Sum() != all[i].Key.Sum() {
				e.Fatalf("claim %d of %d: %+v", i, n, c)
			}
			switch want[i] = []ledger.Answer{ledger.Busy, ledger.Done, ledger.Run}[i%3]; want[i] {
			case ledger.Done:
				settlements = append(settlements, succeed(c))
			case ledger.Run:
				settlements = append(settlements, release(c))
			}
		}
		for i, err := range e.settleAll(a, settlements) {
			if err != nil {
				e.Fatalf("settlement %d of %d: %v", i, n, err)
			}
		}
		for i, c := range e.claimAll(b, all) {
			if c.Answer != want[i] {
				e.Fatalf("claim %d of %d: %v, want %v", i, n, c.Answer, want[i])
			}
		}
	}
}

func claimEmpty(e *env) {
	o := e.owner()
	if claims := e.claimAll(o, nil); len(claims) != 0 {
		e.Fatalf("%d answers to nothing", len(claims))
	}
	if errs := e.settleAll(o, nil); len(errs) != 0 {
		e.Fatalf("%d answers to nothing", len(errs))
	}
}

func claimNotLive(e *env, end func(ledger.Owner)) {
	o, m := e.owner(), e.entry("a")
	end(o)
	if _, err := o.Claim(e.ctx, []ledger.Entry{m, e.entry("b")}); !ledger.IsLost(err) {
		e.Fatalf("claim: %v, want ErrLost", err)
	}
	if c := e.want(e.owner(), m, ledger.Run); c.Token != 1 {
		e.Fatalf("the claim of an owner that is not live wrote: %+v", c)
	}
}

func claimPosition(e *env) {
	o := e.owner()
	at := func(log string, epoch int32, offset int64) ledger.Entry {
		m := e.entry("topic-0-" + number(int(offset)))
		m.Key.Pos = &ledger.Position{Log: log, Epoch: epoch, Offset: offset, Prev: offset - 1}
		return m
	}
	for _, m := range []ledger.Entry{at("u1", 0, 0), at("u2", 0, 0), at("u1", 1, 0), at("u1", -1, 0), at("u1", 0, 1<<62)} {
		c := e.want(o, m, ledger.Run)
		if c.Token != 1 {
			e.Fatalf("%+v met another record's row", *m.Key.Pos)
		}
		e.holds(o, succeed(c))
	}
	again := at("u1", 0, 0)
	again.Key.Pos.Prev = 41 // not part of the identity
	e.want(o, again, ledger.Done)
	bad := at("u1", 0, -1)
	claims, err := o.Claim(e.ctx, []ledger.Entry{bad, at("u1", 0, 7)})
	if err != nil || claims[0].Answer != ledger.Busy || claims[1].Answer != ledger.Run {
		e.Fatalf("a negative offset: %+v, %v", claims, err)
	}
	e.invalid(claims[0].Err, "Entry.Key.Pos")
}

func claimScopes(e *env) {
	o, m := e.owner(), e.entry("a")
	e.holds(o, succeed(e.want(o, m, ledger.Run)))
	m.Key.Scope += "2"
	e.want(o, m, ledger.Run)
}
