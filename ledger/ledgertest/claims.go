package ledgertest

import (
	"time"

	"github.com/ackledger/ackledger/ledger"
)

type testCase struct {
	name string
	run  func(*env)
}

// claimCases are the rows of the claim table, in its order.
var claimCases = []testCase{
	{"ClaimRow01_None", claimNone},
	{"ClaimRow03_ArchivedDelivery", claimArchived},
	{"ClaimRow03_BeforeMismatch", claimArchivedOtherBody},
	{"ClaimRow04_MismatchPending", claimMismatchPending},
	{"ClaimRow04_MismatchSucceeded", claimMismatchSucceeded},
	{"ClaimRow04_MismatchFailed", claimMismatchFailed},
	{"ClaimRow05_Succeeded", claimSucceeded},
	{"ClaimRow06_LiveOwner", claimLive},
	{"ClaimRow06_NotDue", claimNotDue},
	{"ClaimRow07_CrashLimit", claimCrashLimit},
	{"ClaimRow07_CrashLimitReleased", claimCrashLimitReleased},
	{"ClaimRow07_ParkDead", func(e *env) { claimParkAbandoned(e, e.declare) }},
	{"ClaimRow07_ParkLeft", func(e *env) { claimParkAbandoned(e, e.leave) }},
	{"ClaimRow07_ParkReleasedRuns", claimParkReleased},
	{"ClaimRow07_ParkMineRuns", claimParkMine},
	{"ClaimRow07_ParkFailedRuns", claimParkFailed},
	{"ClaimRow08_SuspectPending", claimSuspect},
	{"ClaimRow08_SuspectReleased", claimSuspectReleased},
	{"ClaimRow08_SuspectFailed", claimSuspectFailed},
	{"ClaimRow09_OlderStamp", claimOldStamp},
	{"ClaimRow09_KeepFailed", claimKeepFailed},
	{"ClaimRow09_SuspectFirst", claimOldStampSuspect},
	{"ClaimRow10_Released", claimReleased},
	{"ClaimRow10_Mine", claimMine},
	{"ClaimRow10_Left", claimLeft},
	{"ClaimRow10_Dead", claimDead},
	{"ClaimRow10_Redrive", claimRedrive},
	{"ClaimRow10_RedriveKeepsTwoCrashes", claimRedriveCrashes},
	{"ClaimBatch_OrderAndSizes", claimBatch},
	{"ClaimBatch_Empty", claimEmpty},
	{"ClaimOwner_Dead", func(e *env) { claimNotLive(e, e.declare) }},
	{"ClaimOwner_Left", func(e *env) { claimNotLive(e, e.leave) }},
	{"ClaimKey_Position", claimPosition},
	{"ClaimKey_ScopesDoNotMeet", claimScopes},
}

func claimNone(e *env) {
	o, m := e.owner(), e.entry("a")
	c := e.want(o, m, ledger.Run)
	if c.Token != 1 || c.Attempt != 1 || c.Crashes != 0 || c.TookOver || len(c.Errors) != 0 || c.Generation != 0 {
		e.Fatalf("first claim: %+v", c)
	}
	r := e.record(m)
	if r.State != ledger.Pending || r.Owner != o.ID() || r.Token != 1 || r.Attempts != 0 || r.Crashes != 0 ||
		r.Key != m.Key.Sum() || r.Scope != m.Key.Scope || string(r.ID) != string(m.Key.ID) ||
		!r.Due.IsZero() || r.Result != nil || (r.In != nil) != e.Ranged || r.In != nil && !r.In.Until.IsZero() {
		e.Fatalf("row: %s", summary(r))
	}
	if r.Fingerprint != m.Fingerprint && (!e.Ranged || !r.Fingerprint.IsZero()) { // ranges keep none
		e.Fatalf("row: %s", summary(r))
	}
	if got := r.Expiry.Sub(r.At); got < window-time.Second || got > window+time.Second {
		e.Fatalf("expiry is %s after the first claim, want %s", got, window)
	}
}

func claimArchived(e *env) {
	o, m := e.owner(), e.entry("a")
	e.holds(o, fail(e.want(o, m, ledger.Run), m))
	before := e.record(m)
	if c := e.want(o, m, ledger.Done); c.Outcome.State != ledger.Failed {
		e.Fatalf("outcome %v, want failed", c.Outcome.State)
	}
	e.same(before)
	again := m
	again.Delivery = []byte("a#2")
	c := e.want(o, again, ledger.Run)
	before = e.record(m)
	e.want(o, m, ledger.Done) // the old copy, while the new one is pending
	e.want(e.owner(), m, ledger.Done)
	e.same(before)
	e.holds(o, succeed(c))
	e.want(o, m, ledger.Done)
}

func claimArchivedOtherBody(e *env) {
	o, m := e.owner(), e.entry("a")
	e.inRow(o, m)
	other := m
	other.Fingerprint, other.Delivery = ledger.BodyFingerprint([]byte("other")), []byte("other#1")
	e.holds(o, fail(e.want(o, other, ledger.Mismatch), other))
	e.want(o, other, ledger.Done)
}

// mismatch claims with another body and checks that the row stays as it is.
func mismatch(e *env, o ledger.Owner, m ledger.Entry) {
	e.Helper()
	before := e.record(m)
	m.Fingerprint, m.Delivery = ledger.BodyFingerprint([]byte("another body")), []byte("other#1")
	c := e.want(o, m, ledger.Mismatch)
	if !c.Ticket.IsMismatch() || c.Ticket.Sum() != m.Key.Sum() {
		e.Fatalf("ticket %+v", c.Ticket)
	}
	e.same(before)
}

func claimMismatchPending(e *env) {
	o, m := e.owner(), e.entry("a")
	c := e.inRow(o, m)
	mismatch(e, o, m)
	mismatch(e, e.owner(), m)
	s := release(c)
	s.After = time.Hour
	e.holds(o, s)
	mismatch(e, o, m)
	e.crash(e.entry("b"))
	if e.Ranged { // no fingerprint is known of a record that leaves a range with its dead owner: the next claim's is kept
		e.want(e.owner(), e.entry("b"), ledger.Run)
	}
	mismatch(e, o, e.entry("b"))
}

// noMismatch is what holds where no fingerprint is kept: the position names one record, so another body cannot come under
// it, and whatever comes is answered as that record.
func noMismatch(e *env, o ledger.Owner, m ledger.Entry, want ledger.Answer) {
	e.Helper()
	before := e.record(m)
	m.Fingerprint = ledger.BodyFingerprint([]byte("another body"))
	e.want(o, m, want)
	e.same(before)
}

func claimMismatchSucceeded(e *env) {
	o, m := e.owner(), e.entry("a")
	e.holds(o, succeed(e.inRow(o, m)))
	mismatch(e, o, m)
	if e.Ranged {
		n := e.entry("b")
		c := e.want(o, n, ledger.Run)
		noMismatch(e, e.owner(), n, ledger.Busy)
		e.holds(o, succeed(c))
		noMismatch(e, o, n, ledger.Done)
	}
}

func claimMismatchFailed(e *env) {
	o, m := e.owner(), e.entry("a")
	e.holds(o, fail(e.want(o, m, ledger.Run), m))
	mismatch(e, o, m)
}

func claimSucceeded(e *env) {
	o, m := e.owner(), e.entry("a")
	s := succeed(e.want(o, m, ledger.Run))
	s.Result = []byte("receipt 7")
	e.holds(o, s)
	e.leave(o)
	before := e.record(m)
	for _, entry := range []ledger.Entry{m, {
		Key: m.Key, Fingerprint: m.Fingerprint, Delivery: []byte("a#2"), Window: 2 * window, StampToken: 9, Park: true,
	}} {
		c := e.want(e.owner(), entry, ledger.Done)
		if c.Outcome.State != ledger.Succeeded || string(c.Outcome.Result) != "receipt 7" {
			e.Fatalf("outcome %+v", c.Outcome)
		}
	}
	e.same(before)
}

func claimLive(e *env) {
	o, m := e.owner(), e.entry("a")
	e.want(o, m, ledger.Run)
	before := e.record(m)
	c := e.want(e.owner(), m, ledger.Busy)
	if c.Wait <= 0 || c.Wait > longLease || c.Suspect {
		e.Fatalf("busy: %+v, want a wait of at most %s", c, longLease)
	}
	e.same(before)

	n := e.entry("b") // a suspect in live hands is busy, not suspect
	e.crash(n)
	e.crash(n)
	n.Solo = true
	e.want(o, n, ledger.Run)
	n.Solo = false
	if c := e.want(e.owner(), n, ledger.Busy); c.Suspect || c.Wait <= 0 {
		e.Fatalf("busy: %+v, want a wait and no suspect", c)
	}
}

func claimNotDue(e *env) {
	o, m := e.owner(), e.entry("a")
	s := release(e.want(o, m, ledger.Run))
	s.After = 30 * time.Minute
	e.holds(o, s)
	before := e.record(m)
	for _, asks := range []ledger.Owner{o, e.owner()} {
		if c := e.want(asks, m, ledger.Busy); c.Wait <= 0 || c.Wait > 30*time.Minute || c.Suspect {
			e.Fatalf("busy: %+v, want a wait of at most 30m", c)
		}
	}
	e.same(before)
	n := e.entry("b")
	s = release(e.want(o, n, ledger.Run))
	s.After = 300 * time.Millisecond
	e.holds(o, s)
	e.eventually("the message is due", func() bool { return e.claim(o, n).Answer == ledger.Run })
	if r := e.record(n); !r.Due.IsZero() || r.Token != 2 || r.Attempts != 0 {
		e.Fatalf("row: %s", summary(r))
	}
}

func claimCrashLimit(e *env) {
	m := e.entry("a")
	for range ledger.CrashLimit {
		e.crash(m)
	}
	o := e.owner()
	c := e.want(o, m, ledger.Spent) // also without Solo
	if c.Crashes != ledger.CrashLimit || c.Uncertain || !c.TookOver || c.Token != ledger.CrashLimit+1 {
		e.Fatalf("spent: %+v", c)
	}
	if r := e.record(m); r.Owner != o.ID() || r.Crashes != ledger.CrashLimit || r.State != ledger.Pending {
		e.Fatalf("row: %s", summary(r))
	}
	e.declare(o) // dead-lettering killed it too
	m.Park = true
	b := e.owner()
	c = e.want(b, m, ledger.Spent)
	if c.Crashes != ledger.CrashLimit+1 || c.Uncertain {
		e.Fatalf("spent again: %+v", c)
	}
	e.holds(b, fail(c, m))
	e.want(b, m, ledger.Done)
}

func claimCrashLimitReleased(e *env) {
	m := e.entry("a")
	for range ledger.CrashLimit {
		e.crash(m)
	}
	o := e.owner()
	e.holds(o, release(e.want(o, m, ledger.Spent)))
	if c := e.want(e.owner(), m, ledger.Spent); c.TookOver || c.Crashes != ledger.CrashLimit {
		e.Fatalf("spent: %+v", c)
	}
}

func claimParkAbandoned(e *env, end func(ledger.Owner)) {
	o, m := e.owner(), e.entry("a")
	e.want(o, m, ledger.Run)
	end(o)
	m.Park = true
	b := e.owner()
	c := e.want(b, m, ledger.Spent)
	if !c.Uncertain || !c.TookOver || c.Token != 2 {
		e.Fatalf("spent: %+v", c)
	}
	if r := e.record(m); r.Owner != b.ID() || r.Crashes != c.Crashes {
		e.Fatalf("row: %s", summary(r))
	}
	// That answer was lost, and it asks again: the row names it, and the effect is as uncertain as before.
	if c := e.want(b, m, ledger.Spent); !c.Uncertain || c.TookOver || c.Token != 3 {
		e.Fatalf("spent again: %+v", c)
	}
}

func claimParkReleased(e *env) {
	o, m := e.owner(), e.entry("a")
	m.Park = true
	e.holds(o, release(e.want(o, m, ledger.Run)))
	if c := e.want(e.owner(), m, ledger.Run); c.TookOver || c.Uncertain {
		e.Fatalf("run: %+v", c)
	}
}

func claimParkMine(e *env) {
	o, m := e.owner(), e.entry("a")
	m.Park = true
	e.want(o, m, ledger.Run)
	e.want(o, m, ledger.Run) // its first claim: nobody else had it
	if c := e.want(o, m, ledger.Spent); !c.Uncertain || c.TookOver {
		e.Fatalf("spent: %+v", c)
	}
}

func claimParkFailed(e *env) {
	o, m := e.owner(), e.entry("a")
	m.Park = true
	e.holds(o, fail(e.want(o, m, ledger.Run), m))
	m.Delivery = []byte("a#2")
	e.want(o, m, ledger.Run)
}
