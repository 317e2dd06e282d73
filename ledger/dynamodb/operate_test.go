package dynamodb_test

import (
	"testing"

	"github.com/ackledger/ackledger/ledger/ledgertest"
)

// TestOperate shares one file: a fresh one for each case is thirty migrations at once.
func TestOperate(t *testing.T) {
	long(t)
	shared := open(t)
	ledgertest.RunOperate(t, func(*testing.T) ledgertest.Store { return shared })
}

func TestPitfall75_SucceededMeanwhile(t *testing.T)     { long(t); ledgertest.Pitfall75(t, open) }
func TestPitfall76_TwoReplays(t *testing.T)             { long(t); ledgertest.Pitfall76(t, open) }
func TestPitfall83_ReplayKilled(t *testing.T)           { long(t); ledgertest.Pitfall83(t, open) }
func TestPitfall97_BugStillLives(t *testing.T)          { long(t); ledgertest.Pitfall97(t, open) }
func TestPitfall103_CopiesWithoutRow(t *testing.T)      { long(t); ledgertest.Pitfall103(t, open) }
func TestPitfall116_ReplayedFiveTimes(t *testing.T)     { long(t); ledgertest.Pitfall116(t, open) }
func TestPitfall117_InPlaceReplayKilled(t *testing.T)   { long(t); ledgertest.Pitfall117(t, open) }
func TestPitfall149_StartToldAtOnce(t *testing.T)       { long(t); ledgertest.Pitfall149(t, open) }
func TestPitfall150_ReopenedBelowTheCut(t *testing.T)   { long(t); ledgertest.Pitfall150(t, open) }
func TestPitfall151_ReopenedForTenMinutes(t *testing.T) { long(t); ledgertest.Pitfall151(t, open) }
func TestPitfall152_TokenBelowTheCut(t *testing.T)      { long(t); ledgertest.Pitfall152(t, open) }
func TestPitfall154_CountedTwiceOrNot(t *testing.T)     { long(t); ledgertest.Pitfall154(t, open) }
