package storage_test

import (
	"strings"
	"testing"

	"github.com/ackledger/ackledger/ledger/storage"
)

func TestIsLedgerID(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", storage.MaxLedgerID)
	for id, want := range map[string]bool{
		"0198c9f2-53a1-7a1e-8a58-7a0e6c2f1b11": true, "AZaz09_-": true, long: true,
		"": false, long + "a": false, "a:b": false, "a b": false, "ä": false, "a\x00": false,
	} {
		if storage.IsLedgerID(id) != want {
			t.Errorf("%q: want %v", id, want)
		}
	}
}
