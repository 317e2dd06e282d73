package postgres_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// lossy is a ledger behind a proxy that can lose answers, with one message claimed.
type lossy struct {
	*bench
	cut   *cutter
	owner ledger.Owner
	entry ledger.Entry
	claim ledger.Claim
}

func newLossy(t *testing.T, v variant) *lossy {
	t.Helper()
	direct := newBench(t, variant{old: v.old})
	cut, url := newCutter(t, direct.url)
	l := &lossy{bench: openBench(t, url, v), cut: cut, entry: entry("a")}
	l.sql = v.sql
	var err error
	if l.owner, err = l.Join(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if !v.log {
		l.claim = claimOne(t, l.owner, l.entry, ledger.Run)
		return l
	}
	all := records("scope", 0, 7, 2)
	claims := claimsOf(t, l.owner, all, ledger.Run)
	l.entry, l.claim = all[0], claims[0]
	if v.altered {
		if err := settleOne(t, l.owner, ledger.Settlement{Ticket: claims[1].Ticket, Kind: ledger.Release}); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func entry(id string) ledger.Entry {
	return ledger.Entry{Key: ledger.Key{Scope: "scope", ID: []byte(id)}, Delivery: []byte(id), Window: time.Hour,
		Fingerprint: ledger.BodyFingerprint([]byte(id))}
}

func claimOne(t *testing.T, o ledger.Owner, e ledger.Entry, want ledger.Answer) ledger.Claim {
	t.Helper()
	claims, err := o.Claim(t.Context(), []ledger.Entry{e})
	if err != nil {
		t.Fatal(err)
	}
	if claims[0].Answer != want || claims[0].Err != nil {
		t.Fatalf("claim: %+v, want %v", claims[0], want)
	}
	return claims[0]
}

func settleOne(t *testing.T, o ledger.Owner, s ledger.Settlement) error {
	t.Helper()
	errs, err := o.Settle(t.Context(), []ledger.Settlement{s})
	if err != nil {
		t.Fatal(err)
	}
	return errs[0]
}

// attempt runs one InTx with an effect.
func (l *lossy) attempt(t *testing.T) (*ledger.Attempt, error) {
	t.Helper()
	a := ledger.NewAttempt(l.owner, l.claim.Ticket)
	run := inTx
	if l.sql {
		run = inSQLTx
	}
	return a, run(ledger.WithAttempt(t.Context(), a), func(ctx context.Context) error {
		return ctx.Value(inserterKey{}).(inserter)(ctx, "effect")
	})
}

func (l *lossy) effects(t *testing.T) (n int) {
	t.Helper()
	if err := l.pool.QueryRow(t.Context(), "SELECT count(*) FROM effects").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// bothTxs runs a test for each kind of transaction and message. With pgx a statement's text comes with each message.
func bothTxs(t *testing.T, test func(t *testing.T, v variant)) {
	const text = pgx.QueryExecModeExec
	for name, v := range map[string]variant{
		"pgx": {mode: text}, "sql": {sql: true}, "pgx in a range": {mode: text, log: true}, "sql in a range": {sql: true, log: true},
		"pgx in a range that has changed": {mode: text, log: true, altered: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, v)
		})
	}
}

// TestPitfall25_CommitAnswerLost: a commit whose answer was lost was taken for a failure, and the effect repeated.
func TestPitfall25_CommitAnswerLost(t *testing.T) {
	t.Parallel()
	bothTxs(t, func(t *testing.T, v variant) {
		l := newLossy(t, v)
		l.cut.cutAfter("commit\x00", false)
		a, err := l.attempt(t)
		if state, _ := a.State(); err != nil || state != ledger.AttemptSucceeded || l.cut.count() != 1 {
			t.Fatalf("InTx: %v, state %d, %d cuts", err, state, l.cut.count())
		}
		// What a worker that knew nothing of it would do: it changes nothing.
		err = settleOne(t, l.owner, ledger.Settlement{Ticket: l.claim.Ticket, Kind: ledger.Release, Count: true})
		if err != nil && !ledger.IsLost(err) {
			t.Fatal(err)
		}
		claimOne(t, l.owner, l.entry, ledger.Done)
		if n := l.effects(t); n != 1 {
			t.Fatalf("%d effects", n)
		}
	})
}

// TestPitfall119_CommitAborted: a COMMIT that never arrived, with its answer lost, was marked as succeeded by repeating
// the settle.
func TestPitfall119_CommitAborted(t *testing.T) {
	t.Parallel()
	bothTxs(t, func(t *testing.T, v variant) {
		l := newLossy(t, v)
		succeedAll(t, l.owner, claimsOf(t, l.owner, manyEntries("another", 10), ledger.Run)) // which say nothing of this one
		l.cut.cutBefore("commit\x00")
		a, err := l.attempt(t)
		abort(t, a, err, false)
		if n := l.effects(t); n != 0 || l.cut.count() != 1 {
			t.Fatalf("%d effects, %d cuts", n, l.cut.count())
		}
		if ledger.Unavailable(err) != (!v.sql && !v.altered) { // its fence was not answered either
			t.Errorf("InTx: %v", err)
		}
		if err := settleOne(t, l.owner, ledger.Settlement{Ticket: l.claim.Ticket, Kind: ledger.Release}); err != nil {
			t.Fatal(err)
		}
		claimOne(t, l.owner, l.entry, ledger.Run)
	})
}

// A fence and its COMMIT came to the server late: their InTx, whose connection had broken, was told that it had rolled back, and then it
// committed. It is not known until the next claim, which shuts a later one out.
func TestPitfall174_LateFence(t *testing.T) {
	t.Parallel()
	for n := range 4 {
		first, inRange := n%2 == 0, n < 2 // first: before the next claim
		t.Run(fmt.Sprintf("before the next claim %t, in a range %t", first, inRange), func(t *testing.T) {
			t.Parallel()
			l := newLossy(t, variant{mode: pgx.QueryExecModeExec, log: inRange})
			deliver := l.cut.delay()
			a, err := l.attempt(t)
			abort(t, a, err, true)
			if n := l.effects(t); n != 0 {
				t.Errorf("%d effects before it came", n)
			}
			if first {
				deliver()
				poll(t, "what was late", func() bool { return l.effects(t) == 1 })
				claimOne(t, l.owner, l.entry, ledger.Done)
				return
			}
			l.claim = claimOne(t, l.owner, l.entry, ledger.Run)
			if _, err := l.attempt(t); err != nil {
				t.Fatal(err)
			}
			deliver()
			poll(t, "what was late", func() bool { return l.transactions(t) == 0 })
			if n := l.effects(t); n != 1 || l.cut.count() != 1 {
				t.Errorf("%d effects, %d cuts", n, l.cut.count())
			}
			claimOne(t, l.owner, l.entry, ledger.Done)
		})
	}
}

// transactions are those of others that have written something.
func (l *lossy) transactions(t *testing.T) (n int) {
	t.Helper()
	err := l.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_xid IS NOT NULL
		AND pid <> pg_backend_pid()`).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// abort looks at an attempt whose COMMIT did not arrive. late: its fence did not either, and both may be on their way.
func abort(t *testing.T, a *ledger.Attempt, err error, late bool) {
	t.Helper()
	want := ledger.AttemptOpen
	if late {
		want = ledger.AttemptUnknown
	}
	if state, _ := a.State(); err == nil || ledger.Unknown(err) != late || state != want {
		t.Fatalf("InTx: %v, state %d, want %d", err, state, want)
	}
}

// TestUnknownCommitStaysUnknown: when the row cannot be read either, the attempt says so, and nothing acknowledges.
func TestUnknownCommitStaysUnknown(t *testing.T) {
	t.Parallel()
	bothTxs(t, func(t *testing.T, v variant) {
		v.cfg = &postgres.Config{CommitLimit: 2500 * time.Millisecond} // time enough to send the COMMIT
		l := newLossy(t, v)
		l.cut.cutAfter("commit\x00", true)
		l.cut.closeLater()
		a, err := l.attempt(t)
		if state, _ := a.State(); !ledger.Unknown(err) || state != ledger.AttemptUnknown {
			t.Fatalf("InTx: %v, state %d", err, state)
		}
		l.cut.mend()
		claimOne(t, l.owner, l.entry, ledger.Done)
	})
}

// TestPitfall114_LostAnswer: an answer to a claim or settle that is lost on the wire is unknown, and asking again ends
// it.
func TestPitfall114_LostAnswer(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			testLostAnswer(t, mode)
		})
	}
}

func testLostAnswer(t *testing.T, mode pgx.QueryExecMode) {
	marker := func(s string) string { return s }
	if mode != pgx.QueryExecModeCacheStatement { // there bytes travel as text
		marker = func(s string) string { return hex.EncodeToString([]byte(s)) }
	}
	l := newLossy(t, variant{mode: mode})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lost := entry("lost-on-the-wire")
	own := ledger.Unwrap(l.owner) // the group would wait for the flush's own deadline
	l.cut.cutAfter(marker("lost-on-the-wire"), false)
	if _, err := own.Claim(ctx, []ledger.Entry{lost}); !ledger.Unknown(err) {
		t.Fatalf("claim: %v", err)
	}
	c := claimOne(t, own, lost, ledger.Run)
	if c.Token != 2 || c.TookOver || c.Crashes != 0 {
		t.Fatalf("claimed again: %+v", c)
	}
	s := ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed, Result: []byte("the-result-is-lost")}
	l.cut.cutAfter(marker("the-result-is-lost"), false)
	if _, err := own.Settle(ctx, []ledger.Settlement{s}); !ledger.Unknown(err) {
		t.Fatalf("settle: %v", err)
	}
	if err := settleOne(t, own, s); err != nil {
		t.Fatalf("settled again: %v", err)
	}
	l.cut.cutAfter(marker("the-last-one"), true) // and from now on nobody gets through
	if _, err := own.Claim(ctx, []ledger.Entry{entry("the-last-one")}); !ledger.Unknown(err) {
		t.Fatalf("claim: %v", err)
	}
	short, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	l.cut.closeAll()
	if _, err := own.Claim(short, []ledger.Entry{entry("c")}); err == nil || ledger.Unusable(err) || errors.Is(err, ledger.ErrLost) {
		t.Fatalf("claim without a database: %v", err)
	}
}
