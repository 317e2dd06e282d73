package postgres_test

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// claimAll claims new messages, all of which it must get, and returns what settles them so.
func claimAll(t *testing.T, o ledger.Owner, entries []ledger.Entry, kind ledger.SettleKind) []ledger.Settlement {
	t.Helper()
	claims, err := o.Claim(t.Context(), entries)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]ledger.Settlement, len(claims))
	for i, c := range claims {
		if c.Answer != ledger.Run {
			t.Fatalf("claim %d: %+v", i, c)
		}
		out[i] = ledger.Settlement{Ticket: c.Ticket, Kind: kind}
	}
	return out
}

func manyEntries(name string, n int) []ledger.Entry {
	entries := make([]ledger.Entry, n)
	for i := range entries {
		entries[i] = entry(fmt.Sprintf("%s-%d", name, i))
	}
	return entries
}

// TestPitfall100_HeldForAMoment: others that claimed the same messages held their rows for a moment; a settle of many then
// asked for one after the other, each in a transaction of its own, until its patience had ended, and failed though every
// row had long been free.
func TestPitfall100_HeldForAMoment(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{cfg: &postgres.Config{LockWait: 100 * time.Millisecond}})
	o := join(t, b, time.Minute)
	for name, kind := range map[string]ledger.SettleKind{"succeed": ledger.Succeed, "release": ledger.Release} {
		settlements := claimAll(t, o, manyEntries(name, 4000), kind)
		tx := hold(t, b, "SELECT FROM ackledger.message WHERE state = 1 FOR NO KEY UPDATE")
		var errs []error
		var err error
		var since time.Time
		if err := b.pool.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&since); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			errs, err = o.Settle(t.Context(), settlements)
		}()
		poll(t, "the full statement finds the rows held", func() bool {
			return b.number(t, fmt.Sprintf(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
				AND query_start > '%s' AND pid <> pg_backend_pid() AND query LIKE '%%locked AS MATERIALIZED%%'`, since.Format(time.RFC3339Nano))) > 0
		})
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-ended
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, err := range errs {
			if err != nil {
				t.Fatalf("%s of %d, settlement %d: %v", name, len(errs), i, err)
			}
		}
	}
	if n := b.number(t, "SELECT count(*) FROM ackledger.message WHERE owner IS NOT NULL"); n != 0 {
		t.Errorf("%d rows are not settled", n)
	}
}

// TestSettleBesideAHeldRow: a row that stays locked costs its settlement alone.
func TestSettleBesideAHeldRow(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{cfg: &postgres.Config{LockWait: 20 * time.Millisecond}})
	o := join(t, b, time.Minute)
	entries := manyEntries("m", 50)
	settlements := claimAll(t, o, entries, ledger.Succeed)
	unlock, err := b.store().Lock(t.Context(), entries[7].Key)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	errs, err := o.Settle(t.Context(), settlements)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("it gave up after %s", took)
	}
	for i, err := range errs {
		if (err != nil) != (i == 7) || ledger.IsLost(err) {
			t.Errorf("settlement %d: %v", i, err)
		}
	}
	unlock()
	if err := settleOne(t, o, settlements[7]); err != nil {
		t.Error(err)
	}
}

const (
	leanRounds = 300 // in the long run; a third of them else
	leanKeys   = 30
	// leanLimit is far above what locks may cost a call of a few keys, also where the machine stalls. Deadlocks are counted.
	leanLimit = 20 * time.Second
)

// TestPitfall13_LeanStatements: the statements that go ahead insert and write without locking first. Two owners on the same
// keys in opposite order, hundreds of times: no deadlock, nobody waits long, and every answer is one that ledger.Decide
// gives to a state that the row was in.
func TestPitfall13_LeanStatements(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	owners := []ledger.Owner{ledger.Unwrap(join(t, b, time.Minute)), ledger.Unwrap(join(t, b, time.Minute))}
	pending := &ledger.Row{State: ledger.Pending, Token: 1, Holder: ledger.Live}
	done := &ledger.Row{State: ledger.Succeeded, Token: 1}
	decided := func(row *ledger.Row, e ledger.Entry) ledger.Answer {
		if row != nil {
			row.Fingerprint = e.Fingerprint
		}
		return ledger.Decide(row, e).Answer
	}
	rounds := leanRounds / 3
	if os.Getenv("ACKLEDGER_LONG") != "" {
		rounds = leanRounds
	}
	for round := range rounds {
		up := manyEntries(fmt.Sprint(round), leanKeys)
		down := slices.Clone(up)
		slices.Reverse(down)
		asked := [][]ledger.Entry{up, down}
		claims := atOnce(t, func(who int) ([]ledger.Claim, error) { return owners[who].Claim(t.Context(), asked[who]) })
		mine := make([][]ledger.Settlement, 2)
		for i, e := range up {
			pair := []ledger.Claim{claims[0][i], claims[1][leanKeys-1-i]}
			answers := []ledger.Answer{pair[0].Answer, pair[1].Answer}
			first, second := decided(nil, e), decided(pending, e)
			if !slices.Equal(answers, []ledger.Answer{first, second}) && !slices.Equal(answers, []ledger.Answer{second, first}) {
				t.Fatalf("round %d, key %d: %v, want one %v and one %v", round, i, answers, first, second)
			}
			for who, c := range pair {
				if c.Answer == ledger.Run {
					mine[who] = append(mine[who], ledger.Settlement{Ticket: c.Ticket, Kind: ledger.Succeed})
				}
			}
		}
		slices.Reverse(mine[0])
		var again [][]ledger.Claim
		var wg sync.WaitGroup
		wg.Go(func() { // meanwhile both ask for the others' keys
			again = atOnce(t, func(who int) ([]ledger.Claim, error) {
				return owners[1-who].Claim(t.Context(), others(asked[who], claims[1-who]))
			})
		})
		for who, errs := range atOnce(t, func(who int) ([]error, error) { return settleHeld(t, owners[who], mine[who]) }) {
			for i, err := range errs {
				if err != nil {
					t.Errorf("round %d, owner %d, settlement %d: %v", round, who, i, err)
				}
			}
		}
		wg.Wait()
		for _, claims := range again {
			for i, c := range claims {
				if c.Answer != decided(pending, up[0]) && c.Answer != decided(done, up[0]) {
					t.Errorf("round %d, asked again, %d: %+v", round, i, c)
				}
			}
		}
		last, err := owners[round%2].Claim(t.Context(), up)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range last {
			if c.Answer != decided(done, up[i]) {
				t.Errorf("round %d, settled, %d: %+v", round, i, c)
			}
		}
		if t.Failed() {
			break
		}
	}
	b.scanned(t) // closes all connections, so that their counts are told
	if n := b.number(t, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// settleHeld is Settle, again for what another transaction held, as what Join returns does: on a busy machine a claim of others
// may look at its rows for longer than a settlement waits.
func settleHeld(t *testing.T, o ledger.Owner, settlements []ledger.Settlement) ([]error, error) {
	out := make([]error, len(settlements))
	open := make([]int, len(settlements))
	for i := range open {
		open[i] = i
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		again := make([]ledger.Settlement, len(open))
		for at, i := range open {
			again[at] = settlements[i]
		}
		errs, err := o.Settle(t.Context(), again)
		if err != nil {
			return nil, err
		}
		var held []int
		for at, i := range open {
			if out[i] = errs[at]; errs[at] != nil && !ledger.IsLost(errs[at]) {
				held = append(held, i)
			}
		}
		if open = held; len(open) == 0 || time.Now().After(deadline) {
			return out, nil
		}
	}
}

// others are the entries of which these claims did not get the message.
func others(entries []ledger.Entry, claims []ledger.Claim) (out []ledger.Entry) {
	mine := map[[ledger.KeySize]byte]bool{}
	for _, c := range claims {
		if c.Answer == ledger.Run {
			mine[c.Ticket.Sum()] = true
		}
	}
	for _, e := range entries {
		if !mine[e.Key.Sum()] {
			out = append(out, e)
		}
	}
	return out
}

// atOnce makes one call for each of two owners at the same time, neither of which may take long.
func atOnce[T any](t *testing.T, call func(who int) ([]T, error)) [][]T {
	t.Helper()
	out := make([][]T, 2)
	var wg sync.WaitGroup
	for who := range out {
		wg.Go(func() {
			began := time.Now()
			var err error
			if out[who], err = call(who); err != nil {
				t.Errorf("owner %d: %v", who, err)
			}
			if took := time.Since(began); took > leanLimit {
				t.Errorf("owner %d took %s", who, took)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return out
}
