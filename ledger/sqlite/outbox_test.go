package sqlite_test

import (
	"testing"

	"github.com/ackledger/ackledger/ledger/ledgertest"
)

func TestOutbox(t *testing.T) {
	t.Parallel()
	ledgertest.RunOutbox(t, open)
	ledgertest.RunOutbox(t, ledgertest.Ranged(open))
}

func TestPitfall241_OutboxOvertaken(t *testing.T) { t.Parallel(); ledgertest.Pitfall241(t, open) }
func TestPitfall244_OutboxTwoRelays(t *testing.T) { t.Parallel(); ledgertest.Pitfall244(t, open) }
func TestPitfall274_OutboxUncounted(t *testing.T) { t.Parallel(); ledgertest.Pitfall274(t, open) }
