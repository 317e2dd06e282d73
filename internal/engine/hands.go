package engine

import (
	"encoding/binary"
	"hash/maphash"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// hands finds the one item of a key that is, or may be, ours. It is a hash table whose chains lie in the items: a message
// comes and goes, and is looked for, once each at least, so this is much of what it costs to schedule it. Neighbours in a
// log are neighbours in the table, which keeps them in the processor's caches. The rest of the hash is seeded, so that
// nobody can send messages whose keys all meet in one chain.
type hands struct {
	seed    maphash.Seed
	buckets []*Item // as many as a power of two, or none
	n       int
}

const minHands = 64

func newHands() hands { return hands{seed: maphash.MakeSeed()} }

func (h *hands) len() int { return h.n }

func (h *hands) at(sum *[ledger.KeySize]byte) **Item {
	hash := maphash.Bytes(h.seed, sum[:8]) + binary.BigEndian.Uint64(sum[8:])
	return &h.buckets[hash&uint64(len(h.buckets)-1)]
}

// get returns the item that has the key; nil: none has.
func (h *hands) get(sum *[ledger.KeySize]byte) *Item {
	if h.n == 0 {
		return nil
	}
	it := *h.at(sum)
	for it != nil && it.sum != *sum {
		it = it.handNext
	}
	return it
}

// put takes an item in whose key no other has.
func (h *hands) put(it *Item) {
	if h.n == len(h.buckets) {
		h.grow()
	}
	b := h.at(&it.sum)
	it.handNext, *b = *b, it
	h.n++
}

// remove takes out an item that is in.
func (h *hands) remove(it *Item) {
	b := h.at(&it.sum)
	for *b != it {
		b = &(*b).handNext
	}
	*b, it.handNext = it.handNext, nil
	h.n--
}

func (h *hands) grow() {
	old := h.buckets
	h.buckets = make([]*Item, max(2*len(old), minHands))
	for _, it := range old {
		for it != nil {
			next, b := it.handNext, h.at(&it.sum)
			it.handNext, *b = *b, it
			it = next
		}
	}
}

// grab takes the item's key in hand, or makes the item follow the one that has it.
func (s *sched) grab(it *Item) bool {
	other := s.hands.get(&it.sum)
	if other != nil && other != it {
		r := other.extra()
		r.followers = append(r.followers, it)
		s.setPhase(it, waiting)
		it.due = time.Time{}
		if it.isHead() {
			s.gate(it.lane)
		}
		return false
	}
	if other == nil {
		s.hands.put(it)
	}
	it.holds = true
	return true
}

// holdKey takes the key of an item in hand that is ours, or about to be; false: another copy has it.
func (s *sched) holdKey(it *Item) bool {
	if other := s.hands.get(&it.sum); other != nil && other != it {
		return false
	}
	if !it.holds {
		s.hands.put(it)
		it.holds = true
	}
	return true
}

// letGo gives the item's key back; copies that followed it may ask.
func (s *sched) letGo(it *Item) {
	if !it.holds {
		return
	}
	it.holds = false
	s.hands.remove(it)
	if it.rare == nil {
		return
	}
	followers := it.rare.followers
	it.rare.followers = nil
	for _, f := range followers {
		if f.phase == waiting && f.heapAt == 0 {
			s.requeue(f)
		}
	}
}
