package ledgertest

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// settled is one way to settle a claim of a message, and what the ledger is to know then.
type settled struct {
	name string
	how  func(ledger.Claim, ledger.Entry) ledger.Settlement
	want func(ledger.Record) bool
}

var waysToSettle = []settled{
	{"success", func(c ledger.Claim, _ ledger.Entry) ledger.Settlement { return succeed(c) },
		func(r ledger.Record) bool { return r.State == ledger.Succeeded && r.In == nil }},
	{"failure", fail,
		func(r ledger.Record) bool { return r.State == ledger.Failed && len(r.Archived) == 1 }},
	{"retry", func(c ledger.Claim, _ ledger.Entry) ledger.Settlement { return failedAttempt(c, "not yet") },
		func(r ledger.Record) bool { return r.State == ledger.Pending && r.Owner == "" && r.Attempts == 1 }},
	{"release", func(c ledger.Claim, _ ledger.Entry) ledger.Settlement { return release(c) },
		func(r ledger.Record) bool { return r.State == ledger.Pending && r.Owner == "" && r.Attempts == 0 }},
}

// Pitfall146 holds against this: a message was claimed by a row, with the token of a range that had its offset as given back,
// or as never delivered. Its settlement was answered by that range: a success was lost, a dead letter held and was nowhere.
func Pitfall146(t *testing.T, open Open) {
	e := begin(t, Ranged(open))
	o := e.owner()
	for what, meet := range map[string]func(*env, ledger.Owner, int32) (ledger.Entry, ledger.Claim){
		"given back": givenBackThenRow, "never delivered": rowInAGap,
	} {
		for i, way := range waysToSettle {
			m, c := meet(e, o, int32(i))
			s := way.how(c, m)
			for range 2 { // its answer was lost
				if err := e.settle(o, s); err != nil {
					e.Errorf("%s, %s: %v", what, way.name, err)
				}
			}
			if r := e.record(m); !way.want(r) {
				e.Errorf("%s, %s: %s, %d archived", what, way.name, summary(r), len(r.Archived))
			}
		}
		if e.InTx == nil {
			continue
		}
		m, c := meet(e, o, int32(len(waysToSettle)))
		ctx, _ := e.attempt(o, c)
		err := e.InTx(ctx, e.effect(m))
		if r := e.record(m); err != nil || r.State != ledger.Succeeded || r.In != nil {
			e.Errorf("%s, InTx: %v, %s", what, err, summary(r))
		}
		e.wantEffects(m, 1)
	}
}

// Pitfall148 holds against this: a log was dropped, since all in it had been reopened or given back, and a copy of one of its
// messages got a row: with token 1, below those that handlers had seen. An effect that is fenced by the token was refused.
func Pitfall148(t *testing.T, open Open) {
	e := begin(t, Ranged(open))
	o := e.owner()
	m := e.at(0, 0, -1)
	var last uint64
	for range 3 {
		c := e.want(o, m, ledger.Run)
		e.holds(o, release(c))
		last = c.Token
	}
	e.sweep(time.Millisecond)
	m.Copy = true
	c := e.want(o, m, ledger.Run)
	if c.Token <= last {
		e.Errorf("token %d after %d", c.Token, last)
	}
	e.holds(o, succeed(c))
	next := e.want(o, e.at(0, 1, 0), ledger.Run) // beside it, in a range
	if r := e.record(m); r.State != ledger.Succeeded {
		e.Errorf("%s", summary(r))
	}
	e.holds(o, succeed(next))
}

// Pitfall155 holds against this: an owner had a row for a message of a log that had been dropped, and then claimed one there that had been
// given back in a range. It got a row, with a token that handlers had seen.
func Pitfall155(t *testing.T, open Open) {
	e := begin(t, Ranged(open))
	o := e.owner()
	m, row := e.at(0, 50, -1), e.at(0, 49, -1)
	first := e.want(o, m, ledger.Run)
	e.holds(o, release(first))
	e.sweep(time.Millisecond)
	row.Ranged = false
	e.holds(o, succeed(e.want(o, row, ledger.Run)))
	if again := e.want(o, m, ledger.Run); again.Token <= first.Token {
		e.Errorf("token %d after %d", again.Token, first.Token)
	}
}

// Pitfall156 holds against this: an owner knew a log that had been dropped as bound to rows, and claimed a copy there that had been given
// back in a range. The copy got a row, with a token that handlers had seen.
func Pitfall156(t *testing.T, open Open) {
	e := begin(t, Ranged(open))
	o := e.owner()
	m, row := e.at(0, 50, -1), e.at(0, 49, -1)
	first := e.want(o, m, ledger.Run)
	e.holds(o, release(first))
	e.sweep(time.Millisecond)
	row.Ranged = false
	e.holds(o, succeed(e.want(o, row, ledger.Run)))
	m.Copy, m.Ranged = true, false
	if again := e.want(o, m, ledger.Run); again.Token <= first.Token {
		e.Errorf("token %d after %d", again.Token, first.Token)
	}
}

// Pitfall196 holds against this: a log that had been dropped, and was met anew by a stretch, had the versions of its earlier life again. A
// member that remembered one of these claimed above what it knew, and its range took the place of another's, with the same token.
func Pitfall196(t *testing.T, open Open) {
	e := begin(t, Ranged(open))
	a, b := ledger.Ungroup(e.owner()).(ledger.StretchOwner), ledger.Ungroup(e.owner()).(ledger.StretchOwner)
	first := e.claimStretches(a, e.stretch(0, 10))[0]
	e.hold(a, e.claimsOf(e.span(0, 10), first), release)
	e.sweep(time.Millisecond)
	second := e.claimStretches(b, e.stretch(0, 10))[0]
	if first == 0 || second <= first {
		e.Fatalf("tokens %d, then %d", first, second)
	}
	if tokens := e.claimStretches(a, e.stretch(10, 20)); tokens[0] != 0 {
		e.Errorf("what was known of the log is of its earlier life: token %d beside %d", tokens[0], second)
	}
	e.answers(a, e.span(0, 10), func(int) ledger.Answer { return ledger.Busy })
	e.settleStretch(b, e.done(e.stretch(0, 10), second), nil)
	e.answers(a, e.span(0, 10), func(int) ledger.Answer { return ledger.Done })
}

// givenBackThenRow claims a message of a log that was dropped after it had been given back there.
func givenBackThenRow(e *env, o ledger.Owner, epoch int32) (ledger.Entry, ledger.Claim) {
	e.Helper()
	m := e.at(epoch, 0, -1)
	first := e.want(o, m, ledger.Run)
	e.holds(o, release(first))
	e.sweep(time.Millisecond)
	m.Ranged = false
	c := e.want(o, m, ledger.Run)
	for c.Token < first.Token {
		e.holds(o, release(c))
		c = e.want(o, m, ledger.Run)
	}
	if c.Token != first.Token {
		e.Fatalf("token %d in a row, and %d in a range", c.Token, first.Token)
	}
	return m, c
}

// rowInAGap claims a copy of a message, and then the records around it, between which it is missing.
func rowInAGap(e *env, o ledger.Owner, epoch int32) (ledger.Entry, ledger.Claim) {
	e.Helper()
	epoch += 100
	e.hold(o, e.allRun(o, []ledger.Entry{e.at(epoch, 0, -1), e.at(epoch, 9, -1)}), succeed)
	m := e.at(epoch, 3, -1)
	m.Ranged, m.Delivery = false, []byte("a copy")
	c := e.want(o, m, ledger.Run)
	if next := e.want(o, e.at(epoch, 6, 0), ledger.Run); next.Token != c.Token {
		e.Fatalf("token %d in a row, and %d of the range around it", c.Token, next.Token)
	}
	return m, c
}
