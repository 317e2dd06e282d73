package kafka

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/ackledger/ackledger/consumer"
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

// reaches says why no worker would take the stamp of a copy, and so would run it as another message, however often it is sent;
// nil: it would. Workers look at the same ([delivery.Exists]), and take what is signed without a look.
func (t *ReplayTarget) reaches(topic string, s *consumer.Stamp) error {
	if s.Pos == nil || s.Signer != "" {
		return nil
	}
	x, err := t.extents.get(t.client, topic)
	if err != nil {
		return fmt.Errorf("what there is of its topic cannot be asked for: %w", err)
	}
	cluster := strings.TrimSuffix(t.prefix, "/")
	for _, known := range []topicID{x.id, {}} { // by its id, or, with NameIdentity, by its name
		if partition, ok := partitionOf(s.Pos.Log, logName(cluster, topic, known, 0)); ok {
			if e, there := x.ends[partition]; there && (e == silent || e.reaches(s.Pos.Offset, s.Pos.Epoch)) {
				return nil
			}
			return fmt.Errorf("topic %q has no such record (any more), and workers take its copy for another message: it can be replayed in place", topic)
		}
	}
	return fmt.Errorf("topic %q was created anew since, and workers take its copy for another message: it can be replayed in place", topic)
}
