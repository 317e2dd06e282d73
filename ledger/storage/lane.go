package storage

import (
	"fmt"
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

// LaneLost is the error of a lane that somebody else has.
func LaneLost(lane ledger.Lane) error {
	return fmt.Errorf("%w: lane %d of %q, token %d", ledger.ErrLost, lane.Shard, lane.Target, lane.Token)
}

// OutboxFull says whether an outbox has more than it takes: messages, and bytes of their bodies. Nil: there is room.
func OutboxFull(messages, mostMessages, bytes, mostBytes int64) error {
	switch {
	case messages > mostMessages:
		return fmt.Errorf("%w: at most %d messages wait, there are more", ledger.ErrOutboxFull, mostMessages)
	case bytes > mostBytes:
		return fmt.Errorf("%w: bodies of at most %d bytes wait, there are %d", ledger.ErrOutboxFull, mostBytes, bytes)
	}
	return nil
}
