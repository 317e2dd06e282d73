package postgres_test

import (
	"testing"

	"github.com/ackledger/ackledger/ledger/ledgertest"
)

func TestRecover(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]variant{"18": {}, "14": {old: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledgertest.RunRecover(t, func(t *testing.T) ledgertest.Store { return newBench(t, v).store() })
		})
	}
}
