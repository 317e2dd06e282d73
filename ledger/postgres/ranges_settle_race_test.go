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

// TestCloseIsTheOwnersAlone: the short way ends a range of its own owner, and takes it into the segment before it; nobody
// else's.
func TestCloseIsTheOwnersAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o, other := join(t, b, time.Minute), join(t, b, time.Minute)
	all := records("s", 0, 0, 10)
	succeedAll(t, o, claimsOf(t, o, all[:5], ledger.Run))
	held := claimsOf(t, o, all[5:], ledger.Run)
	for _, c := range []struct {
		who  ledger.Owner
		want bool
	}{{other, false}, {o, true}} {
		if closed, err := postgres.CloseRange(t.Context(), c.who, all[5], held[0].Token, 0, 5); err != nil || closed != c.want {
			t.Errorf("closed is %t, want %t: %v", closed, c.want, err)
		}
	}
	b.oneSegment(t, o, 10)
}

// TestFoldNeedsNoResult: a row that its range will speak for goes ten minutes after its success, unless it has a result, which
// nothing else keeps.
func TestFoldNeedsNoResult(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	all := records("s", 0, 0, 5)
	claimsOf(t, o, all, ledger.Run)
	claims := claimsOf(t, o, all[1:4], ledger.Run) // asked again: they leave their range
	s := postgres.SettleStatement(o, []ledger.Settlement{{Ticket: claims[2].Ticket, Kind: ledger.Succeed, Result: []byte("r")}}, time.Now().Add(time.Hour))
	b.exec(t, s.SQL, s.Args...)
	for i, c := range claims[:2] {
		a := ledger.NewAttempt(o, c.Ticket)
		err := inTx(ledger.WithAttempt(t.Context(), a), func(context.Context) error {
			if i == 0 {
				return nil
			}
			return a.SetResult([]byte("r"))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, keeps := range []bool{false, true, true} {
		r, err := b.Get(t.Context(), all[1+i].Key)
		if err != nil || (time.Until(r.Expiry) > 30*time.Minute) != keeps {
			t.Errorf("message %d is kept until %s, %v", i, r.Expiry, err)
		}
	}
}

// TestOutcomeInARange: what an InTx whose answer was lost has come to. It is lost where its message has left the range since.
func TestOutcomeInARange(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	all := records("s", 0, 0, 10)
	claims := claimsOf(t, o, all, ledger.Run)
	outcomes := make([]func(context.Context) (ledger.AttemptState, error), 4)
	for i := range outcomes {
		outcomes[i] = postgres.RangeOutcome(o, claims[i].Ticket)
	}
	b.committed(t, 1) // with a result
	sum := all[1].Key.Sum()
	b.exec(t, fmt.Sprintf(`INSERT INTO ackledger.message (key, id, fingerprint, scope, state, token, attempts, crashes, at, expiry, result, covered)
		SELECT '%x', 'topic-0-1', '%x', g.scope, 2, %d, 0, 0, now(), now() + interval '1 hour', 'result', true
		FROM ackledger.range_log g`, sum[:], all[1].Fingerprint[:], claims[1].Token))
	claimsOf(t, o, all[2:3], ledger.Run) // asked again: it has a row now
	for i, want := range []ledger.AttemptState{ledger.AttemptOpen, ledger.AttemptSucceeded, ledger.AttemptLost} {
		if state, err := outcomes[i](t.Context()); err != nil || state != want {
			t.Errorf("message %d: %v, want %v: %v", i, state, want, err)
		}
	}
	b.exec(t, "DELETE FROM ackledger.claim_range")
	if state, err := outcomes[3](t.Context()); err != nil || state != ledger.AttemptLost {
		t.Errorf("its range is gone: %v, %v", state, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if state, err := outcomes[0](ended); err == nil || state != ledger.AttemptUnknown {
		t.Errorf("nothing could be read: %v, %v", state, err)
	}
}

// TestFenceOfADamagedRange: an InTx whose range cannot be read is not committed, and is no lost one either.
func TestFenceOfADamagedRange(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	claims := claimsOf(t, o, records("s", 0, 0, 5), ledger.Run)
	a := ledger.NewAttempt(o, claims[2].Ticket)
	if err := settleOne(t, o, ledger.Settlement{Ticket: claims[0].Ticket, Kind: ledger.Release}); err != nil { // its sets are read now
		t.Fatal(err)
	}
	b.exec(t, `UPDATE ackledger.claim_range SET done = '\xffffffffffffffffffffff'`)
	err := inTx(ledger.WithAttempt(t.Context(), a), oneEffect)
	if state, _ := a.State(); err == nil || ledger.IsLost(err) || state != ledger.AttemptOpen {
		t.Errorf("InTx: %v, state %v", err, state)
	}
}

// TestFenceOfASuccess: an InTx of a message that has succeeded in its range by now is lost, and has no effect.
func TestFenceOfASuccess(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	claims := claimsOf(t, o, records("s", 0, 0, 5), ledger.Run)
	b.committed(t, 2)
	a := ledger.NewAttempt(o, claims[2].Ticket)
	err := inTx(ledger.WithAttempt(t.Context(), a), oneEffect)
	if state, _ := a.State(); !ledger.IsLost(err) || state != ledger.AttemptLost {
		t.Errorf("InTx: %v, state %v", err, state)
	}
	if n := b.number(t, "SELECT count(*) FROM effects"); n != 0 {
		t.Errorf("%d effects", n)
	}
}
