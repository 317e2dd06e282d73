package engine

import (
	"math"
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

// The key of a stretch's record that is reckoned from another one's is the one that the ledger hashes it to.
func TestSumAtIsTheKeyOfTheOffset(t *testing.T) {
	t.Parallel()
	at := func(offset int64) [ledger.KeySize]byte {
		return ledger.Key{Scope: "s", Pos: &ledger.Position{Log: "log", Epoch: 3, Offset: offset}}.Sum()
	}
	for _, from := range []int64{0, 7, 1 << 40} {
		for _, to := range []int64{0, 8, 255, 256, 1 << 40, math.MaxInt64} {
			if got := sumAt(at(from), to); got != at(to) {
				t.Errorf("from offset %d to %d: %x, want %x", from, to, got, at(to))
			}
		}
	}
}
