package memory_test

import (
	"testing"

	"github.com/ackledger/ackledger/ledger/ledgertest"
)

func TestOperate(t *testing.T) { t.Parallel(); ledgertest.RunOperate(t, open) }

func TestPitfall75_SucceededMeanwhile(t *testing.T)   { t.Parallel(); ledgertest.Pitfall75(t, open) }
func TestPitfall76_TwoReplays(t *testing.T)           { t.Parallel(); ledgertest.Pitfall76(t, open) }
func TestPitfall83_ReplayKilled(t *testing.T)         { t.Parallel(); ledgertest.Pitfall83(t, open) }
func TestPitfall97_BugStillLives(t *testing.T)        { t.Parallel(); ledgertest.Pitfall97(t, open) }
func TestPitfall103_CopiesWithoutRow(t *testing.T)    { t.Parallel(); ledgertest.Pitfall103(t, open) }
func TestPitfall116_ReplayedFiveTimes(t *testing.T)   { t.Parallel(); ledgertest.Pitfall116(t, open) }
func TestPitfall117_InPlaceReplayKilled(t *testing.T) { t.Parallel(); ledgertest.Pitfall117(t, open) }
