package kafka

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// extents is how far topics reach, asked once in a run.
type extents struct {
	mu sync.Mutex
	of map[string]func() (extent, error)
}

func (e *extents) reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.of = map[string]func() (extent, error){}
}

func (e *extents) get(client *kgo.Client, topic string) (extent, error) {
	e.mu.Lock()
	found := e.of[topic]
	if found == nil {
		found = sync.OnceValues(func() (extent, error) { return extentOf(context.Background(), client, topic) })
		e.of[topic] = found
	}
	e.mu.Unlock()
	return found()
}
