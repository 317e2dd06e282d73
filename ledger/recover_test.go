package ledger_test

import (
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

func TestEpochOf(t *testing.T) {
	t.Parallel()
	const uuid, bare = "6f1c6a9e-0b0d-4c57-9a53-3f6f0a5b7c1d", "6f1c6a9e-0b0d-4c57-9a53-3f6f0a5b"
	for _, c := range []struct {
		id, root string
		epoch    int
	}{
		{uuid, bare, 0},
		{ledger.InEpoch(uuid, 1), bare, 1},
		{ledger.InEpoch(ledger.InEpoch(uuid, 1), ledger.MaxEpoch), bare, ledger.MaxEpoch},
		{"6f1c6a9e-0b0d-1c57-9a53-3f6f0a5b7c1d", "6f1c6a9e-0b0d-1c57-9a53-3f6f0a5b7c1d", 0},
		{"FILE", "FILE", 0},
		{ledger.InEpoch("FILE", 12), "FILE", 12},
		{ledger.InEpoch("FILE-r12", 13), "FILE", 13},
		{"FILE-r0", "FILE-r0", 0},
		{"FILE-r9999", "FILE-r9999", 0},
		{"-r1", "-r1", 0},
		{"", "", 0},
	} {
		if root, epoch := ledger.EpochOf(c.id); root != c.root || epoch != c.epoch {
			t.Errorf("%q is read as %q in epoch %d, want %q, %d", c.id, root, epoch, c.root, c.epoch)
		}
	}
	if id := ledger.InEpoch(uuid, 258); id != "6f1c6a9e-0b0d-8c57-9a53-3f6f0a5b0102" || !ledger.IsLedgerID(id) {
		t.Errorf("epoch 258 is %q", id)
	}
}
