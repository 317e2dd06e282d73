package kafka

import (
	"context"
	"sync"
	"time"

	"github.com/ackledger/ackledger/replay"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// aged counts copies that are older than their topic keeps records: they keep their timestamp, and a group that is behind
// may find them gone.
type aged struct {
	mu    sync.Mutex
	keeps map[string]time.Duration // by topic; 0: for ever, by the time of the append, or not known
	n     int64
}

func (a *aged) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keeps, a.n = map[string]time.Duration{}, 0
}

// note counts those of the letters that were sent.
func (a *aged) note(ctx context.Context, client *kgo.Client, letters []*replay.Letter, results []replay.Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, l := range letters {
		topic, err := sourceTopic(&l.DeadLetter)
		if err != nil || results[i].Outcome != replay.Sent || l.Message.SentAt.IsZero() {
			continue
		}
		keeps, ok := a.keeps[topic]
		if !ok {
			keeps = keepsFor(ctx, client, topic)
			a.keeps[topic] = keeps
		}
		if keeps > 0 && time.Since(l.Message.SentAt) > keeps {
			a.n++
		}
	}
}

// keepsFor asks how long a topic keeps records by their own timestamps.
func keepsFor(ctx context.Context, client *kgo.Client, topic string) time.Duration {
	found, err := describe(context.WithoutCancel(ctx), kadm.NewClient(client), topic)
	if err != nil || found[topic].atAppend {
		return 0
	}
	return found[topic].keeps
}
