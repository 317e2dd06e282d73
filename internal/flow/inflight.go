package flow

import (
	"encoding/binary"

	"github.com/ackledger/ackledger/ledger"
)

// inflight finds the one item of a key that is, or may be, ours. It is a hash table whose chains lie in the items: a message
// comes and goes, and is looked for, once each at least, so this is much of what it costs to schedule it. Neighbours in a
// log are neighbours in the table, which keeps them in the processor's caches. The rest of the hash is seeded, so that
// nobody can send messages whose keys all meet in one chain.
type inflight struct {
	seed    uint64
	buckets []*Item // as many as a power of two, or none
	n       int
}

const minInflight = 64

func newInflight(seed uint64) inflight { return inflight{seed: seed} }

func (h *inflight) at(sum *[ledger.KeySize]byte) **Item {
	hash := mix(h.seed^binary.BigEndian.Uint64(sum[:8])) + binary.BigEndian.Uint64(sum[8:])
	return &h.buckets[hash&uint64(len(h.buckets)-1)]
}

// get returns the item that has the key; nil: none has.
func (h *inflight) get(sum *[ledger.KeySize]byte) *Item {
	if h.n == 0 {
		return nil
	}
	it := *h.at(sum)
	for it != nil && it.sum != *sum {
		it = it.keyNext
	}
	return it
}

// put takes an item in whose key no other has.
func (h *inflight) put(it *Item) {
	if h.n == len(h.buckets) {
		h.grow()
	}
	b := h.at(&it.sum)
	it.keyNext, *b = *b, it
	h.n++
}

// remove takes out an item that is in.
func (h *inflight) remove(it *Item) {
	b := h.at(&it.sum)
	for *b != it {
		b = &(*b).keyNext
	}
	*b, it.keyNext = it.keyNext, nil
	h.n--
}

func (h *inflight) grow() {
	old := h.buckets
	h.buckets = make([]*Item, max(2*len(old), minInflight))
	for _, it := range old {
		for it != nil {
			next, b := it.keyNext, h.at(&it.sum)
			it.keyNext, *b = *b, it
			it = next
		}
	}
}

// mix spreads a number over all 64 bits.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
