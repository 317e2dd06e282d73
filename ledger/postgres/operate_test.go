package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/ledgertest"
	"github.com/ackledger/ackledger/ledger/postgres"
)

// TestOperate: the operators' contract on the newest and the oldest server, and in the ways to send a statement.
func TestOperate(t *testing.T) {
	t.Parallel()
	variants := map[string]variant{"18": {}, "14": {old: true}}
	for _, mode := range modes() {
		variants[mode.String()] = variant{mode: mode}
	}
	for name, v := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared := newBench(t, v).store()
			ledgertest.RunOperate(t, func(*testing.T) ledgertest.Store { return shared })
		})
	}
}

func TestPitfall75_SucceededMeanwhile(t *testing.T)     { t.Parallel(); ledgertest.Pitfall75(t, open) }
func TestPitfall76_TwoReplays(t *testing.T)             { t.Parallel(); ledgertest.Pitfall76(t, open) }
func TestPitfall83_ReplayKilled(t *testing.T)           { t.Parallel(); ledgertest.Pitfall83(t, open) }
func TestPitfall97_BugStillLives(t *testing.T)          { t.Parallel(); ledgertest.Pitfall97(t, open) }
func TestPitfall103_CopiesWithoutRow(t *testing.T)      { t.Parallel(); ledgertest.Pitfall103(t, open) }
func TestPitfall116_ReplayedFiveTimes(t *testing.T)     { t.Parallel(); ledgertest.Pitfall116(t, open) }
func TestPitfall117_InPlaceReplayKilled(t *testing.T)   { t.Parallel(); ledgertest.Pitfall117(t, open) }
func TestPitfall149_StartToldAtOnce(t *testing.T)       { t.Parallel(); ledgertest.Pitfall149(t, open) }
func TestPitfall150_ReopenedBelowTheCut(t *testing.T)   { t.Parallel(); ledgertest.Pitfall150(t, open) }
func TestPitfall151_ReopenedForTenMinutes(t *testing.T) { t.Parallel(); ledgertest.Pitfall151(t, open) }
func TestPitfall152_TokenBelowTheCut(t *testing.T)      { t.Parallel(); ledgertest.Pitfall152(t, open) }
func TestPitfall154_CountedTwiceOrNot(t *testing.T)     { t.Parallel(); ledgertest.Pitfall154(t, open) }

// TestOperatorsGiveConnectionsBack: what operators ask for, one after the other, needs one connection, and an error of one call
// is not taken for the end of what it lists.
func TestOperatorsGiveConnectionsBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{cfg: &postgres.Config{MaxConns: 1}})
	key := failOnce(t, b, "a", "d")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 3 {
		note := ledger.AuditRecord{By: ledger.By{Actor: "a"}, Action: ledger.ActionReplay, Key: key, Delivery: []byte("d")}
		if err := b.Audit(ctx, []ledger.AuditRecord{note}); err != nil {
			t.Fatal(err)
		}
	}
	listed := 0
	for _, err := range b.Audits(ctx, ledger.AuditFilter{}) {
		if listed++; err != nil {
			t.Fatal(err)
		}
	}
	if listed != 3 {
		t.Errorf("%d audit rows, want 3", listed)
	}
	b.exec(t, "ALTER TABLE ackledger.scope RENAME TO away")
	for _, err := range b.Audits(ctx, ledger.AuditFilter{}) {
		if listed++; !ledger.Unusable(err) {
			t.Errorf("a list that cannot begin: %v", err)
		}
	}
	for _, err := range b.Messages(ctx, ledger.Filter{Scope: "scope"}) {
		if listed++; !ledger.Unusable(err) {
			t.Errorf("messages that cannot be listed: %v", err)
		}
	}
	if listed != 5 {
		t.Error("a list that cannot begin is empty, and says nothing")
	}
}

// TestDamagedDeadLetters: what of a dead letter cannot be read is an error of the list, and of the message: sent again without its
// headers or its place it would be another.
func TestDamagedDeadLetters(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	key := failOnce(t, b, "a", "d")
	for _, column := range []string{"headers", "position"} {
		b.exec(t, "UPDATE ackledger.archive SET headers = NULL, position = NULL")
		b.exec(t, "UPDATE ackledger.archive SET "+column+" = 'no JSON'")
		var got error
		for _, err := range b.DeadLetters(t.Context(), ledger.Filter{Body: true}) {
			got = err
		}
		if _, err := b.Get(t.Context(), key); err == nil || got == nil {
			t.Errorf("%s: get: %v, list: %v", column, err, got)
		}
	}
}

// TestMessagesOfAllScopes: a list without a scope has those of all, on all pages of the table, each once.
func TestMessagesOfAllScopes(t *testing.T) {
	t.Parallel()
	b := newBench(t, variant{})
	const many = 30_000 // more than are read at once
	claimOne(t, join(t, b, time.Minute), entry("pending"), ledger.Run)
	fillMessages(t, b, many, time.Hour)
	seen, pending := map[[ledger.KeySize]byte]bool{}, 0
	for m, err := range b.Messages(t.Context(), ledger.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen[m.Key] = true; m.State == ledger.Pending {
			pending++
		}
	}
	if len(seen) != many+1 || pending != 1 {
		t.Errorf("%d messages, %d of them pending; want %d and 1", len(seen), pending, many+1)
	}
}
