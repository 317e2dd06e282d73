package storage

import (
	"hash/fnv"

	"github.com/ackledger/ackledger/ledger"
)

// LaneOf says in which lane of its target a message of the outbox lies, and what tells its key from others there: 0 for one without a key,
// which follows no other. Two keys with one number are ordered as if they were one.
func LaneOf(m *ledger.Outgoing) (shard int, order int64) {
	h := fnv.New64a()
	key := m.Key
	if len(key) == 0 {
		key = []byte(m.ID)
	}
	_, _ = h.Write(key)
	sum := h.Sum64()
	shard = int((sum ^ sum>>32) % ledger.Lanes)
	if len(m.Key) == 0 {
		return shard, 0
	}
	return shard, int64(sum | 1)
}
