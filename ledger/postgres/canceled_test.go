package postgres_test

import (
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// sqlCancelWaiters cancels statements of this database that wait for a lock, three times.
const sqlCancelWaiters = `DO $$
DECLARE n int := 0; hit int;
BEGIN
	WHILE n < 3 LOOP
		SELECT count(*) FILTER (WHERE pg_cancel_backend(pid)) INTO hit FROM pg_locks
		WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
		n := n + hit;
		PERFORM pg_sleep(0.001);
		IF clock_timestamp() > now() + interval '15 seconds' THEN RAISE 'only % statements waited', n; END IF;
	END LOOP;
END $$`

// TestCanceledStatements: a lock_timeout that ran out just as the lock was given ended a claim beside the sweep with "canceling
// statement due to user request", and all its messages waited for the next try of the worker. A statement that is canceled
// wrote nothing, and is sent again.
func TestCanceledStatements(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{cfg: &postgres.Config{LockWait: 20 * time.Second}})
	o := join(t, b, time.Minute)
	var tickets []ledger.Ticket
	for _, step := range []struct {
		name, table string
		do          func() error
	}{
		{"claim", "message", func() error {
			claims, err := o.Claim(t.Context(), manyEntries("m", 10))
			tickets = ticketsOf(claims)
			return err
		}},
		{"succeed", "message", func() error { return settleEach(t, o, ledger.Succeed, tickets[:5]) }},
		{"release", "message", func() error { return settleEach(t, o, ledger.Release, tickets[5:]) }},
		{"claim a range", "claim_range", func() error {
			claims, err := o.Claim(t.Context(), records("s", 0, 0, 10))
			tickets = ticketsOf(claims)
			return err
		}},
		{"succeed in a range", "claim_range", func() error { return settleEach(t, o, ledger.Succeed, tickets) }},
	} {
		tx := hold(t, b, "LOCK TABLE ackledger."+step.table+" IN ACCESS EXCLUSIVE MODE")
		var done sync.WaitGroup
		done.Go(func() {
			if err := step.do(); err != nil {
				t.Errorf("%s: %v", step.name, err)
			}
		})
		if _, err := b.pool.Exec(t.Context(), sqlCancelWaiters); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		done.Wait()
	}
	if n := b.number(t, "SELECT count(*) FROM ackledger.message WHERE state = 2"); n != 5 {
		t.Errorf("%d messages succeeded in rows, want 5", n)
	}
}

// settleEach settles all tickets in one kind, each of which must be carried out.
func settleEach(t *testing.T, o ledger.Owner, kind ledger.SettleKind, tickets []ledger.Ticket) error {
	t.Helper()
	settlements := make([]ledger.Settlement, len(tickets))
	for i, ticket := range tickets {
		settlements[i] = ledger.Settlement{Ticket: ticket, Kind: kind}
	}
	errs, err := o.Settle(t.Context(), settlements)
	for i, err := range errs {
		if err != nil {
			t.Errorf("settlement %d: %v", i, err)
		}
	}
	return err
}
