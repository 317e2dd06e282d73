package postgres_test

import (
	"testing"

	"github.com/ackledger/ackledger/ledger/ledgertest"
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

func TestPitfall75_SucceededMeanwhile(t *testing.T)   { t.Parallel(); ledgertest.Pitfall75(t, open) }
func TestPitfall76_TwoReplays(t *testing.T)           { t.Parallel(); ledgertest.Pitfall76(t, open) }
func TestPitfall83_ReplayKilled(t *testing.T)         { t.Parallel(); ledgertest.Pitfall83(t, open) }
func TestPitfall97_BugStillLives(t *testing.T)        { t.Parallel(); ledgertest.Pitfall97(t, open) }
func TestPitfall103_CopiesWithoutRow(t *testing.T)    { t.Parallel(); ledgertest.Pitfall103(t, open) }
func TestPitfall116_ReplayedFiveTimes(t *testing.T)   { t.Parallel(); ledgertest.Pitfall116(t, open) }
func TestPitfall117_InPlaceReplayKilled(t *testing.T) { t.Parallel(); ledgertest.Pitfall117(t, open) }
