package lambdasqs

import (
	"sync"

	"github.com/ackledger/ackledger/internal/engine"
)

// groups are the message groups of a FIFO queue that have stopped: nothing of them begins any more behind the record that stopped them.
type groups struct {
	mu sync.Mutex
	at map[string]int // by the group's name: the first record that came to nothing
}

// stop stops what is behind a message in its group. A message without a group has nothing behind it.
func (g *groups) stop(it *engine.Item) {
	if it.OrderingKey == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.at == nil {
		g.at = map[string]int{}
	}
	at := it.Ref.(int)
	if first, ok := g.at[it.OrderingKey]; ok {
		at = min(at, first)
	}
	g.at[it.OrderingKey] = at
}

// stopped says whether a message is behind one that came to nothing.
func (g *groups) stopped(it *engine.Item) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.at[it.OrderingKey]
	return ok && it.Ref.(int) > at
}
