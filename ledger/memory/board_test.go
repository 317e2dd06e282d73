package memory_test

import (
	"testing"

	"github.com/ackledger/ackledger/ledger/ledgertest"
)

func TestBoard(t *testing.T) {
	t.Parallel()
	shared := open(t)
	ledgertest.RunBoard(t, func(*testing.T) ledgertest.Store { return shared })
}
