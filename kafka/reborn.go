package kafka

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// isAnother says that an assignment's topic is not the one that was read, or may not be, and has it joined afresh: so what the
// log lacks, it never had. A topic that is created anew is known to one broker after the other, and kgo asks for offsets and
// epochs by its name, so each of them is asked.
func (w *Worker) isAnother(a *assignment) bool {
	if !a.astray && !w.isReborn(a) {
		return false
	}
	w.readAgain(a)
	return true
}

// rebornTimeout bounds how long brokers are asked what they take a topic for.
const rebornTimeout = 3 * time.Second

// isReborn says that a broker knows another topic of that name, or none.
func (w *Worker) isReborn(a *assignment) bool {
	if a.id == (topicID{}) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), rebornTimeout)
	defer cancel()
	var asking sync.WaitGroup
	var reborn atomic.Bool
	for _, b := range w.kgo.DiscoveredBrokers() {
		asking.Go(func() {
			_, metas, err := w.metadata(ctx, b, []string{a.Topic})
			m := metas[a.Topic]
			if err == nil && (m.err == nil && m.id != a.id || errors.Is(m.err, kerr.UnknownTopicOrPartition)) {
				reborn.Store(true)
			}
		})
	}
	asking.Wait()
	return reborn.Load()
}
