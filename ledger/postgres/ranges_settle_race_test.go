package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// TestSettledWhileItsCommitIsUnderWay: a handler that does not wait for its InTx is released, or fails for good, while that
// transaction is past its fence. The settlement waits for the commit, and then takes nothing out of the range: a row for it
// would win over the success, and the effect would come twice.
func TestSettledWhileItsCommitIsUnderWay(t *testing.T) {
	t.Parallel()
	body := []byte("body")
	for name, settlement := range map[string]ledger.Settlement{
		"an attempt is counted": {Kind: ledger.Release, Count: true, Failure: ledger.AttemptError{Kind: ledger.KindTimeout, Error: "late"}},
		"delayed":               {Kind: ledger.Release, After: time.Hour},
		"failed for good":       {Kind: ledger.Fail, Dead: &ledger.Archive{Kind: ledger.KindExhausted, Body: body, Keep: time.Hour}},
		"with a result":         {Kind: ledger.Succeed, Result: []byte("another's")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, variant{})
			b.exec(t, `CREATE FUNCTION slow_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				PERFORM pg_advisory_xact_lock_shared(42); RETURN NULL; END $$`)
			b.exec(t, `CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED
				FOR EACH ROW EXECUTE FUNCTION slow_commit()`)
			o := join(t, b, time.Minute)
			all := records("s", 0, 0, 5)
			claims := claimsOf(t, o, all, ledger.Run)
			gate := pauser{bench: b}
			gate.shut(t)
			var wg sync.WaitGroup
			wg.Go(func() {
				a := ledger.NewAttempt(o, claims[2].Ticket)
				if err := inTx(ledger.WithAttempt(t.Context(), a), oneEffect); err != nil {
					t.Errorf("InTx: %v", err)
				}
			})
			gate.await(t)
			var errs []error
			wg.Go(func() {
				settlement.Ticket, settlement.Fingerprint = claims[2].Ticket, all[2].Fingerprint
				if settlement.Dead != nil {
					settlement.Dead.Key, settlement.Dead.Delivery, settlement.Dead.Fingerprint = all[2].Key, all[2].Delivery, all[2].Fingerprint
				}
				var err error
				if errs, err = o.Settle(t.Context(), []ledger.Settlement{settlement}); err != nil {
					t.Errorf("settle: %v", err)
				}
			})
			poll(t, "the settlement waits for the commit", func() bool { return lockWaiters(t, b) == 2 })
			gate.open(t)
			wg.Wait()
			if len(errs) != 1 || !ledger.IsLost(errs[0]) {
				t.Errorf("settle: %v, want ErrLost", errs)
			}
			claimsOf(t, o, all[2:3], ledger.Done)
			if r, err := b.Get(t.Context(), all[2].Key); err != nil || r.State != ledger.Succeeded || len(r.Archived) != 0 {
				t.Errorf("%+v, %v", r, err)
			}
			if n := b.number(t, "SELECT count(*) FROM effects"); n != 1 {
				t.Errorf("%d effects", n)
			}
			succeedAll(t, o, append(claims[:2:2], claims[3:]...))
			b.oneSegment(t, o, 5)
		})
	}
}

// oneSegment wants all that o has settled in one segment, and no range left.
func (b *bench) oneSegment(t *testing.T, o ledger.Owner, messages int) {
	t.Helper()
	poll(t, "no range is open", func() bool {
		if _, err := o.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		return b.number(t, "SELECT count(*) FROM ackledger.claim_range") == 0
	})
	if n := b.number(t, "SELECT count(*) FROM ackledger.segment"); n != 1 {
		t.Errorf("%d segments, want 1", n)
	}
	if n := b.number(t, "SELECT sum(messages) FROM ackledger.segment"); n != messages {
		t.Errorf("%d messages in segments, want %d", n, messages)
	}
}

// committed is what an InTx of one message leaves in the only log.
func (b *bench) committed(t *testing.T, offset int) {
	t.Helper()
	b.exec(t, fmt.Sprintf(`INSERT INTO ackledger.segment (log, first, last, kind, messages, since, until, expiry)
		SELECT log, %d, %d, 1, 1, now(), now(), now() + interval '1 hour' FROM ackledger.range_log`, offset, offset+1))
}

// TestFoundDone: an InTx whose end this process did not learn had committed. The next claim says so, and the range is
// over; it would else stay open for as long as its owner lives.
func TestFoundDone(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	all := records("s", 0, 0, 5)
	succeedAll(t, o, claimsOf(t, o, all, ledger.Run)[:4])
	b.committed(t, 4)
	claimsOf(t, o, all[4:], ledger.Done)
	b.oneSegment(t, o, 5)
}

// TestFoundDoneWithAResult: the same with a result, which has a row. The segment of that InTx goes into the one that the
// rest of its range becomes; left inside of it, it hid what came behind, and that ran again.
func TestFoundDoneWithAResult(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	all := records("s", 0, 0, 10)
	succeedAll(t, o, claimsOf(t, o, all[:5], ledger.Run))
	claims := claimsOf(t, o, all[5:], ledger.Run)
	b.committed(t, 7)
	sum := all[7].Key.Sum()
	b.exec(t, fmt.Sprintf(`INSERT INTO ackledger.message (key, id, fingerprint, scope, state, token, attempts, crashes, at, expiry, result, covered)
		SELECT '%x', 'topic-0-7', '%x', g.scope, 2, %d, 0, 0, now(), now() + interval '1 hour', 'result', true
		FROM ackledger.range_log g`, sum[:], all[7].Fingerprint[:], claims[2].Token))
	claimsOf(t, o, all[7:8], ledger.Done)
	succeedAll(t, o, append(claims[:2:2], claims[3:]...))
	b.oneSegment(t, o, 10)
	claimsOf(t, o, all[5:], ledger.Done)
}

// TestOverWithASegmentInside: the short way leaves a range alone in which there is a segment, whatever its owner knows of it.
func TestOverWithASegmentInside(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	all := records("s", 0, 0, 10)
	succeedAll(t, o, claimsOf(t, o, all[:5], ledger.Run))
	claims := claimsOf(t, o, all[5:], ledger.Run)
	b.committed(t, 7)
	succeedAll(t, o, claims)
	b.oneSegment(t, o, 10)
}

// TestSegmentReplacedWhileItIsWaitedFor: two owners settle neighbouring ranges at once, and one takes the segment into its own
// that the other waits for, which InTx had put there. The other sees what has become of it: no segment lies in another,
// which would hide what comes above.
func TestSegmentReplacedWhileItIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	slow, quick := join(t, b, time.Minute), join(t, b, time.Minute)
	all := records("s", 0, 0, 20)
	first, second := claimsOf(t, slow, all[:10], ledger.Run), claimsOf(t, quick, all[10:], ledger.Run)
	a := ledger.NewBatchAttempt(quick, ticketsOf(second))
	if err := inTx(ledger.WithAttempt(t.Context(), a), oneEffect); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	postgres.SaveWhile(t, slow, all[0], first[0].Token, 10, sync.OnceFunc(func() {
		wg.Go(func() {
			if _, err := quick.Beat(context.WithoutCancel(t.Context())); err != nil { // it closes what is over
				t.Errorf("beat: %v", err)
			}
		})
		poll(t, "the other waits", func() bool { return lockWaiters(t, b) == 1 })
	}))
	wg.Wait()
	b.oneSegment(t, quick, 20)
}
