package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
)

// hold runs SQL in a transaction that stays open until the test's end, as that of a process that is stuck.
func hold(t *testing.T, b *bench, sql string) pgx.Tx {
	t.Helper()
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	if _, err := tx.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
	return tx
}

// The rows of four callers were held by a stuck transaction. Each of their settlements kept its whole batch for two seconds,
// and there are two batches at a time: everybody else's took four.
func TestHeldRowsHoldNobodyElse(t *testing.T) {
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	held := claimAll(t, o, manyEntries("held", 4), ledger.Succeed)
	others := claimAll(t, o, manyEntries("others", 100), ledger.Succeed)
	tx := hold(t, b, "SELECT FROM ackledger.message WHERE id LIKE 'held%' FOR NO KEY UPDATE")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	answers := make([]error, len(held))
	for i := range held {
		wg.Go(func() { answers[i] = settleOne(t, o, held[i]) })
	}
	longest := time.Duration(0)
	for _, s := range others {
		began := time.Now()
		if errs, err := o.Settle(ctx, []ledger.Settlement{s}); err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
		longest = max(longest, time.Since(began))
	}
	if longest > time.Second {
		t.Errorf("a settlement beside held rows took %s", longest)
	}
	wg.Wait()
	for i, err := range answers {
		if err == nil || ledger.IsLost(err) {
			t.Errorf("held settlement %d: %v", i, err)
		}
	}
	for i := range held { // free before the patience is over: they are settled
		wg.Go(func() { answers[i] = settleOne(t, o, held[i]) })
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	for i, err := range answers {
		if err != nil {
			t.Errorf("held settlement %d, once its row is free: %v", i, err)
		}
	}
}

// A caller of a held row that ends its context is answered at once, and knows that nothing was written.
func TestHeldRowAndCancelledCaller(t *testing.T) { // not in parallel with others: half a second is enough alone
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	s := claimAll(t, o, manyEntries("m", 2), ledger.Succeed)
	hold(t, b, "SELECT FROM ackledger.message WHERE id = 'm-0' FOR NO KEY UPDATE")
	var errs []error
	var err error
	for range 5 { // half a second is enough on a machine that does not stall
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if errs, err = o.Settle(ctx, s); err == nil && errs[1] == nil {
			cancel()
			break
		}
		cancel()
	}
	if err != nil || errs[0] == nil || ledger.IsLost(errs[0]) || errs[1] != nil {
		t.Errorf("%v, %v", errs, err)
	}
}

// A thousand keys were inserted by a stuck transaction. A batch of claims with them was halved until each stood alone, 10 ms
// a half, and then ended with its answer unknown: for everybody in it, each time.
func TestManyOpenInsertsFailNobody(t *testing.T) {
	for _, n := range []int{64, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			b := newBench(t, variant{})
			o := join(t, b, time.Minute)
			claimAll(t, o, manyEntries("before", 1), ledger.Succeed)
			stuck := manyEntries("stuck", n)
			tx := hold(t, b, "SELECT")
			for _, e := range stuck {
				if _, err := tx.Exec(t.Context(), `INSERT INTO ackledger.message (token, at, expiry, scope, state, attempts, crashes, key, fingerprint, id)
					SELECT 1, now(), now() + interval '1 hour', 1, 1, 0, 0, $1, $2, $3`, pgKey(e.Key), pgUUID(e.Fingerprint), e.Key.ID); err != nil {
					t.Fatal(err)
				}
			}
			entries := append(manyEntries("free", 4), stuck...)
			began := time.Now()
			claims, err := o.Claim(t.Context(), entries)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > leanLimit {
				t.Errorf("the claim took %s", took)
			}
			for i, c := range claims {
				if i >= 4 && c.Answer != ledger.Busy {
					t.Errorf("stuck key %d: %+v", i, c)
				}
			}
			began = time.Now()
			poll(t, "the free keys run", func() bool {
				claims, err := o.Claim(t.Context(), manyEntries("free", 4))
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range claims {
					if c.Answer != ledger.Run {
						return false
					}
				}
				return true
			})
			if took := time.Since(began); took > leanLimit {
				t.Errorf("the others' claim took %s", took)
			}
		})
	}
}

// A repetition of what has succeeded is answered although somebody holds the row, and leaves no lock in it: its commit, which would
// wait for the disk, changes nothing.
func TestRepetitionsOnlyRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	o := join(t, b, time.Minute)
	c := claimOne(t, o, entry("a"), ledger.Run)
	if err := settleOne(t, o, ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed, Result: []byte("result")}); err != nil {
		t.Fatal(err)
	}
	other := entry("a")
	other.Fingerprint = ledger.BodyFingerprint([]byte("another body"))
	for _, solo := range []bool{false, true} {
		again := entry("a")
		again.Solo, other.Solo = solo, solo
		if got := claimOne(t, o, again, ledger.Done); string(got.Outcome.Result) != "result" || got.Outcome.State != ledger.Succeeded {
			t.Errorf("solo %t: %+v", solo, got)
		}
		claimOne(t, o, other, ledger.Mismatch)
	}
	if n := b.number(t, "SELECT count(*) FROM ackledger.message WHERE xmax::text <> '0'"); n > 0 {
		t.Error("a repetition has locked the row")
	}
	hold(t, b, "SELECT FROM ackledger.message FOR UPDATE")
	claimOne(t, o, entry("a"), ledger.Done)
	claimOne(t, o, other, ledger.Mismatch)
}
