package postgres_test

import (
	"testing"

	"github.com/ackledger/ackledger/ledger/ledgertest"
)

// A restored ledger handed out tokens that had been handed out after its backup; and the next ones of a log were those of its ranges that
// were open.
func TestPitfall217_TokensGoOn(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]variant{"18": {}, "14": {old: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledgertest.RunRecover(t, func(t *testing.T) ledgertest.Store { return newBench(t, v).store() })
		})
	}
}
