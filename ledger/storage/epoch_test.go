package storage_test

import (
	"errors"
	"math"
	"testing"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

func TestEpochOf(t *testing.T) {
	t.Parallel()
	const uuid, bare = "6f1c6a9e-0b0d-4c57-9a53-3f6f0a5b7c1d", "6f1c6a9e-0b0d-4c57-9a53-"
	for _, c := range []struct {
		id, root string
		epoch    int
	}{
		{uuid, bare, 0},
		{storage.InEpoch(uuid, 1, 5), bare, 1},
		{storage.InEpoch(storage.InEpoch(uuid, 1, 5), ledger.MaxEpoch, 6), bare, ledger.MaxEpoch},
		{"6f1c6a9e-0b0d-1c57-9a53-3f6f0a5b7c1d", "6f1c6a9e-0b0d-1c57-9a53-3f6f0a5b7c1d", 0},
		{"FILE", "FILE", 0},
		{storage.InEpoch("FILE", 12, 7), "FILE", 12},
		{storage.InEpoch("FILE-r12-00000007", 13, 8), "FILE", 13},
		{"FILE-r12", "FILE", 12},
		{"FILE-r0", "FILE-r0", 0},
		{"FILE-r-7", "FILE-r-7", 0},
		{"FILE-r9999", "FILE-r9999", 0},
		{"-r1", "-r1", 0},
		{"", "", 0},
	} {
		if root, epoch := storage.EpochOf(c.id); root != c.root || epoch != c.epoch {
			t.Errorf("%q is read as %q in epoch %d, want %q, %d", c.id, root, epoch, c.root, c.epoch)
		}
	}
	if id := storage.InEpoch(uuid, 258, 0xabcdef); id != "6f1c6a9e-0b0d-8c57-9a53-00abcdef0102" || !storage.IsLedgerID(id) {
		t.Errorf("epoch 258 is %q", id)
	}
}

// The tokens of an epoch lie between its floor and the next one's, and those of the last one fit into the columns of a database.
func TestTokenFloor(t *testing.T) {
	t.Parallel()
	if got := storage.TokenFloor(ledger.MaxEpoch) + 1<<storage.TokenBits - 1; got != math.MaxInt64 {
		t.Errorf("the last token is %d, want %d", got, int64(math.MaxInt64))
	}
	if storage.TokenFloor(0) != 0 || storage.TokenFloor(2)-storage.TokenFloor(1) != 1<<storage.TokenBits {
		t.Errorf("the floors are %d, %d, %d", storage.TokenFloor(0), storage.TokenFloor(1), storage.TokenFloor(2))
	}
}

// A recovery is of the ledger that was read, to an epoch above its own, and somebody's.
func TestRecoveryIsRefused(t *testing.T) {
	t.Parallel()
	me, id := ledger.By{Actor: "me"}, storage.InEpoch("FILE", 3, 7)
	for name, c := range map[string]struct {
		r     ledger.Recovery
		field string // empty: it is taken
	}{
		"the next epoch": {ledger.Recovery{ID: id, Epoch: 4, By: me}, ""},
		"the last epoch": {ledger.Recovery{ID: id, Epoch: ledger.MaxEpoch, By: me}, ""},
		"its own epoch":  {ledger.Recovery{ID: id, Epoch: 3, By: me}, "Recovery.Epoch"},
		"past the last":  {ledger.Recovery{ID: id, Epoch: ledger.MaxEpoch + 1, By: me}, "Recovery.Epoch"},
		"nobody":         {ledger.Recovery{ID: id, Epoch: 4}, "By.Actor"},
	} {
		err := storage.CheckRecovery(&c.r, id)
		var bad *ledger.InvalidError
		if errors.As(err, &bad) != (c.field != "") || bad != nil && bad.Field != c.field || bad == nil && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := ledger.Recovery{ID: "FILE", Epoch: 4, By: me}
	if err := storage.CheckRecovery(&other, id); !errors.Is(err, ledger.ErrChanged) {
		t.Errorf("of another id: %v", err)
	}
	if r := storage.RecoveryRecord(&other, "FILE-r4-00000009"); r.Action != ledger.ActionRecover || r.By != me || r.Detail != "epoch 4, id FILE-r4-00000009" {
		t.Errorf("%+v", r)
	}
}
