package engine

import (
	"encoding/binary"
	"testing"

	"github.com/ackledger/ackledger/ledger"
	"pgregory.net/rapid"
)

// The table finds what a map finds, whether keys are hashes or neighbours in a log, and whatever was there before.
func TestHandsAgreeWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, twin := newHands(), map[[ledger.KeySize]byte]*Item{}
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			var sum [ledger.KeySize]byte
			sum[0] = byte(rapid.IntRange(0, 2).Draw(t, "log"))
			binary.BigEndian.PutUint64(sum[8:], uint64(rapid.IntRange(0, 300).Draw(t, "offset")*rapid.SampledFrom([]int{1, minHands}).Draw(t, "stride")))
			had := twin[sum]
			if got := h.get(&sum); got != had {
				t.Fatalf("key %x: found %p, want %p", sum, got, had)
			}
			if had == nil {
				it := &Item{task: task{sum: sum}}
				h.put(it)
				twin[sum] = it
			} else {
				h.remove(had)
				delete(twin, sum)
			}
			if h.len() != len(twin) {
				t.Fatalf("%d items, want %d", h.len(), len(twin))
			}
		}
		for sum, it := range twin {
			if h.get(&sum) != it {
				t.Fatalf("key %x is not found", sum)
			}
			h.remove(it)
		}
		if h.len() != 0 {
			t.Fatalf("%d items are left", h.len())
		}
	})
}
