package kafka

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
)

// shareLags are how many records of each partition a share group has not decided, as the brokers said last. They are the group's: each
// member says the same.
type shareLags struct {
	mu sync.Mutex
	of map[place]int64
}

// ask asks the brokers of the group's topics. Who may not know, or gets no answer, says nothing.
func (l *shareLags) ask(ctx context.Context, adm *kadm.Client, group string, topics map[string]topicID) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	now := map[place]int64{}
	if groups, err := adm.DescribeShareGroupOffsets(ctx, group); err == nil {
		for topic, partitions := range groups[group].Offsets {
			for partition, o := range partitions {
				if _, ours := topics[topic]; ours && o.Err == nil && o.Lag >= 0 {
					now[place{Topic: topic, Partition: partition}] = o.Lag
				}
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of = now
}

func (l *shareLags) lags(tell func(place, int64)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, n := range l.of {
		tell(p, n)
	}
}
