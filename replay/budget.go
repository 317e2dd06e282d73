package replay

import (
	"context"
	"sync"
)

// budget bounds the bytes of letters in hand. One letter that is larger than all of it passes alone.
type budget struct {
	mu   sync.Mutex
	left int
	all  int
	more chan struct{} // closed when something is given back
}

func newBudget(bytes int) *budget { return &budget{left: bytes, all: bytes, more: make(chan struct{})} }

// take waits until there is room for n bytes; false: ctx ended.
func (b *budget) take(ctx context.Context, n int) bool {
	for {
		b.mu.Lock()
		if n <= b.left || b.left == b.all {
			b.left -= n
			b.mu.Unlock()
			return true
		}
		more := b.more
		b.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return false
		}
	}
}

func (b *budget) give(n int) {
	b.mu.Lock()
	b.left += n
	close(b.more)
	b.more = make(chan struct{})
	b.mu.Unlock()
}
