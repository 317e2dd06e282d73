package memory_test

import (
	"os"
	"testing"

	"github.com/ackledger/ackledger/ledger/ledgertest"
)

func TestRanged(t *testing.T)         { t.Parallel(); ledgertest.RunRanged(t, open) }
func TestRangedGrouped(t *testing.T)  { t.Parallel(); ledgertest.Run(t, ledgertest.Ranged(openGrouped)) }
func TestRangedMaintain(t *testing.T) { t.Parallel(); ledgertest.RunRangedMaintain(t, open) }
func TestRangedReopen(t *testing.T)   { t.Parallel(); ledgertest.RunRangedReopen(t, open) }

// TestRangedDifferential makes as many sequences here as take a second or two: what goes wrong only when a log has been
// dropped shows in one of a hundred.
func TestRangedDifferential(t *testing.T) {
	if os.Getenv("ACKLEDGER_LONG") != "" {
		ledgertest.Differential(t, ledgertest.Ranged(open), 60)
		return
	}
	for range 8 {
		ledgertest.Differential(t, ledgertest.Ranged(open), 60)
	}
}
