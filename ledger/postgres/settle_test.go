package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// TestSucceedTogether: successes that share a token and have no result go in a statement of their own. It writes nobody
// else's row and no other claim's, and is not taken where tokens or results differ.
func TestSucceedTogether(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]variant{"18": {}, "14": {old: true}, "simple": {mode: pgx.QueryExecModeSimpleProtocol}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, v)
			me, other := ledger.Unwrap(join(t, b, time.Minute)), ledger.Unwrap(join(t, b, time.Minute))
			var done []ledger.Settlement
			for i := range 4 {
				c := claimOne(t, me, entry(fmt.Sprint("m", i)), ledger.Run)
				done = append(done, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed})
			}
			settleAll(t, other, done, true, true, true, true)
			again := func(i int) { // claims it anew, with another token
				t.Helper()
				if err := settleOne(t, me, ledger.Settlement{Ticket: done[i].Ticket, Kind: ledger.Release}); err != nil {
					t.Fatal(err)
				}
				done[i].Ticket = claimOne(t, me, entry(fmt.Sprint("m", i)), ledger.Run).Ticket
			}
			stale := done[3]
			again(3)
			sql := func(done ...ledger.Settlement) string { return postgres.SucceedStatement(me, done, time.Now()).SQL }
			if alike := sql(done[0], done[1]); alike == sql(done[0], done[3]) || alike == sql(done[0]) {
				t.Error("those that are alike have no statement of their own")
			}
			settleAll(t, me, []ledger.Settlement{done[0], stale}, false, true)
			stale.Result = []byte("another's")
			settleAll(t, me, []ledger.Settlement{done[0], stale}, false, true)
			done[1].Result = []byte("result")
			settleAll(t, me, done[1:], false, false, false)
			settleAll(t, me, done, false, false, false, false) // it holds
			for i, want := range []string{"", "result", "", ""} {
				c := claimOne(t, me, entry(fmt.Sprint("m", i)), ledger.Done)
				if c.Outcome.State != ledger.Succeeded || string(c.Outcome.Result) != want {
					t.Errorf("message %d: %+v, want the result %q", i, c.Outcome, want)
				}
			}
		})
	}
}

// settleAll settles a batch of which these items are lost.
func settleAll(t *testing.T, o ledger.Owner, done []ledger.Settlement, lost ...bool) {
	t.Helper()
	errs, err := o.Settle(t.Context(), done)
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		if ledger.IsLost(err) != lost[i] || !lost[i] && err != nil {
			t.Fatalf("item %d of %d: %v, want it lost: %v", i, len(done), err, lost[i])
		}
	}
}

// TestOthersDeliveryIsNoneOfOurs: a second failure of a message is lost if its delivery is not archived, also if another message
// has failed in a delivery of the same name: taken for its own, that delivery would be acknowledged and nowhere kept.
func TestOthersDeliveryIsNoneOfOurs(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	failOnce(t, b, "other", "d")
	o, e := join(t, b, time.Minute), entry("mine")
	s := failed(e, claimOne(t, o, e, ledger.Run))
	for range 2 {
		if err := settleOne(t, o, s); err != nil {
			t.Error(err)
		}
	}
	s.Dead.Delivery = []byte("d")
	if err := settleOne(t, o, s); !ledger.IsLost(err) {
		t.Errorf("%v, want it lost", err)
	}
}

// TestScopesAreNumberedOnce: the number of a scope is asked for once, and not with every claim.
func TestScopesAreNumberedOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	other := entry("c")
	other.Key = ledger.Key{Scope: "other", ID: other.Key.ID}
	claimsOf(t, o, []ledger.Entry{entry("a"), other}, ledger.Run)
	b.exec(t, "ALTER TABLE ackledger.scope RENAME TO away")
	other.Key = ledger.Key{Scope: "other", ID: []byte("d")}
	claimsOf(t, o, []ledger.Entry{entry("b"), other}, ledger.Run)
	if n := b.number(t, "SELECT count(*) FROM ackledger.message m JOIN ackledger.away s ON s.id = m.scope WHERE s.name = 'other'"); n != 2 {
		t.Errorf("%d messages of the other scope, want 2", n)
	}
}

// TestErrorsSoFarAreRead: a counted release whose message's earlier errors cannot be read is not made, and they are kept.
func TestErrorsSoFarAreRead(t *testing.T) {
	t.Parallel()
	l := newLossy(t, variant{mode: pgx.QueryExecModeExec}) // statements travel as text
	own := ledger.Unwrap(l.owner)
	release := func() ([]error, error) {
		s := ledger.Settlement{Ticket: l.claim.Ticket, Kind: ledger.Release, Count: true, Failure: ledger.AttemptError{Kind: ledger.KindError, Error: "e"}}
		return own.Settle(t.Context(), []ledger.Settlement{s})
	}
	for want := 1; want <= 2; want++ {
		if want == 2 {
			l.cut.cutBefore("errors IS NOT NULL")
			if errs, err := release(); err == nil {
				t.Errorf("the connection broke: %v", errs)
			}
		}
		if errs, err := release(); err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
		l.claim = claimOne(t, own, l.entry, ledger.Run)
		if len(l.claim.Errors) != want {
			t.Errorf("%d errors, want %d", len(l.claim.Errors), want)
		}
	}
}
