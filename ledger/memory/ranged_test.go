package memory_test

import (
	"testing"

	"github.com/ackledger/ackledger/ledger/ledgertest"
)

func TestRanged(t *testing.T)         { ledgertest.RunRanged(t, open) }
func TestRangedGrouped(t *testing.T)  { ledgertest.Run(t, ledgertest.Ranged(openGrouped)) }
func TestRangedMaintain(t *testing.T) { ledgertest.RunRangedMaintain(t, open) }
func TestRangedReopen(t *testing.T)   { ledgertest.RunRangedReopen(t, open) }

func TestRangedDifferential(t *testing.T) { ledgertest.Differential(t, ledgertest.Ranged(open), 60) }
