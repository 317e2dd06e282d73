package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// frozenBeside makes a ledger whose connection falls silent after the message with marker, and one beside it.
func frozenBeside(t *testing.T, marker string) (frozen, beside *bench, cut *cutter) {
	t.Helper()
	beside = newBench(t, variant{})
	cut, url := newCutter(t, beside.url)
	cut.freezeAfter(marker)
	return openBench(t, url, variant{mode: pgx.QueryExecModeExec}), beside, cut
}

// idle is how many sessions wait for their clients with a transaction open.
func idle(t *testing.T, b *bench) int {
	return b.number(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'")
}

// A sweeper that was stopped between a statement and its COMMIT kept the rows of 500 logs locked: nobody could claim there
// until TCP gave it up, and no other process could sweep. Its statements now go with their COMMIT.
func TestFrozenSweeperHoldsNothing(t *testing.T) {
	t.Parallel()
	for _, marker := range []string{"sweep_log(", "sweep_message(", "sweep_archive(", "SET sealed"} {
		t.Run(marker, func(t *testing.T) {
			t.Parallel()
			frozen, b, cut := frozenBeside(t, marker)
			o := join(t, b, time.Minute)
			succeedAll(t, o, claimsOf(t, o, records("s", 0, 0, 3), ledger.Run))
			fillMessages(t, b, 10, -time.Hour)
			e := entry("archived")
			if err := settleOne(t, o, failed(e, claimOne(t, o, e, ledger.Run))); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := frozen.Sweep(ctx, ledger.MaintainConfig{}); err == nil {
					t.Error("a frozen sweep ended")
				}
			})
			defer wg.Wait()
			defer cancel()
			poll(t, "the sweeper is frozen", func() bool { return cut.count() > 0 })
			began := time.Now()
			poll(t, "no transaction is left open", func() bool { return idle(t, b) == 0 })
			claims := claimsOf(t, join(t, b, time.Minute), records("s", 0, 100, 3), ledger.Run)
			if took := time.Since(began); took > 8*time.Second || len(claims) != 3 {
				t.Errorf("a claim in the log took %s", took)
			}
			b.exec(t, "UPDATE ackledger.maintenance SET lease_end = now() - interval '1 second'") // its lease ends
			if r, err := b.Sweep(t.Context(), ledger.MaintainConfig{}); err != nil {
				t.Errorf("the sweep of another process: %+v, %v", r, err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the sweep of another process took %s", took)
			}
		})
	}
}

// TestFrozenSweeperEnds: a sweep whose connection says nothing waited fifteen seconds for it when it was told to end, which a
// worker's Run waits for.
func TestFrozenSweeperEnds(t *testing.T) {
	t.Parallel()
	frozen, b, cut := frozenBeside(t, "sweep_message(")
	fillMessages(t, b, 10, -time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := frozen.Sweep(ctx, ledger.MaintainConfig{})
		ended <- err
	}()
	poll(t, "the sweeper is frozen, and the server has answered", func() bool {
		const busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid()"
		return cut.count() > 0 && b.number(t, busy) == 0
	})
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the sweep: %v, want a cancelled context", err)
		}
	case <-time.After(10 * time.Second):
		cut.closeAll()
		t.Errorf("a sweep that was told to end did not within 10 s: %v", <-ended)
	}
}

// TestFrozenOperatorIsEnded: a command that was stopped in the middle of a renewal kept its message from everybody.
func TestFrozenOperatorIsEnded(t *testing.T) {
	t.Parallel()
	frozen, b, cut := frozenBeside(t, "generation = coalesce(m.generation, 0) + 1")
	o := join(t, b, time.Minute)
	e := entry("m")
	c := claimOne(t, o, e, ledger.Run)
	if err := settleOne(t, o, failed(e, c)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := frozen.Renew(ctx, ledger.Renewal{By: ledger.By{Actor: "a", Reason: "r"}, Key: e.Key, Token: c.Token})
		if err == nil {
			t.Error("a frozen command ended")
		}
	})
	defer wg.Wait()
	defer cancel()
	poll(t, "the command is frozen", func() bool { return cut.count() > 0 && idle(t, b) > 0 })
	poll(t, "its transaction is ended", func() bool { return idle(t, b) == 0 })
	again := e
	again.Delivery = []byte("redriven")
	claimOne(t, o, again, ledger.Run)
}

// TestFrozenMigrationIsEnded: sessions of a migration are told not to be silent for long, with a transaction open or not: one
// that was frozen between two migrations kept its turn from all others.
func TestFrozenMigrationIsEnded(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	inside, outside, err := postgres.MigrationIdle(t.Context(), b.pool.Config().ConnConfig)
	if err != nil || min(inside, outside) <= 0 || max(inside, outside) > time.Minute {
		t.Errorf("it is told %s and %s, %v", inside, outside, err)
	}
}
