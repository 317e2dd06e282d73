package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/ackledger/ackledger/internal/engine"
)

// forcedPause lies between a restart of a topic and the next one for which its id did not change: what brokers said of the
// old one may come late.
const forcedPause = 5 * time.Second

// takenLimit is how long a group may take to take a topic from a member that has purged it.
const takenLimit = 10 * time.Second

// watcher finds topics that were deleted and created again. The client never takes on a new id by itself.
type watcher struct {
	*Worker
	ids   map[string]topicID
	begun map[string]time.Time // last restarts
}

// watchLoop looks at the topics now and then, and when an error names one.
func (w *Worker) watchLoop(ctx context.Context) {
	v := &watcher{Worker: w, ids: map[string]topicID{}, begun: map[string]time.Time{}}
	t := time.NewTicker(w.watch)
	defer t.Stop()
	for {
		v.look(ctx, "")
		select {
		case <-t.C:
		case topic := <-w.poke:
			v.look(ctx, topic)
			engine.Sleep(ctx, w.watch/20) // whatever goes on there, brokers are not asked without a pause
		case <-ctx.Done():
			return
		}
	}
}

// look compares the topics' ids with those that are known. suspect is a topic that the client or a broker does not know
// by the id that it goes by: it is restarted even if its id is the same.
func (v *watcher) look(ctx context.Context, suspect string) {
	_, metas, err := v.metadata(ctx, v.kgo, v.set.topics)
	if err != nil {
		if ctx.Err() == nil {
			v.report(withCluster, err)
		}
		return
	}
	var trouble error
	for topic, m := range metas {
		if m.err != nil {
			trouble = errors.Join(trouble, fmt.Errorf("topic %q: %w", topic, m.err))
			continue
		}
		known, seen := v.ids[topic]
		v.ids[topic] = m.id
		switch {
		case seen && known != m.id:
			v.restart(ctx, topic, known, m.id)
		case (topic == suspect || v.isAstray(topic)) && time.Since(v.begun[topic]) > forcedPause:
			v.restart(ctx, topic, known, m.id)
		}
	}
	if trouble != nil {
		if errors.Is(trouble, kerr.UnknownTopicOrPartition) {
			v.note(withCluster, trouble) // deleted: perhaps to be created again
			return
		}
		v.report(withCluster, trouble)
		return
	}
	v.measureEnds(ctx)
	if err := v.lookAgain(ctx); err != nil {
		v.report(withCluster, err)
		return
	}
	v.note(withCluster, nil)
}

// lookAgain looks for commits of another ledger. With StartLatest the first members of a new group commit each other's
// partitions as well: one may put its name where the other's was, and find no other when it looks behind that. The name comes
// back with what the other commits next.
func (w *Worker) lookAgain(ctx context.Context) error {
	if w.set.Start != StartLatest || w.signature() == "" {
		return nil
	}
	return w.lookAround(ctx)
}

// restart makes the client forget a topic and find it again. The assignments under the old id are let go of BEFORE, and
// without a commit: the revocation that follows would commit by name, onto the new topic. A topic of another id begins
// at the start of its log: Kafka has dropped the group's offsets with the old one, so they tell nothing.
//
// The topic is added once the group has taken it from this member. Of one that it still has, kgo 1.22.2 may assign the
// partitions twice, see install.
func (v *watcher) restart(ctx context.Context, topic string, from, to topicID) {
	v.log.Warn("topic was created anew, or is not known by its id: it is joined afresh", zap.String("topic", topic),
		zap.Stringer("was", from), zap.Stringer("is", to))
	if from != to {
		v.locked(func() { v.reborn[topic] = true })
	}
	v.abandon(func(a *assignment) bool { return a.Topic == topic })
	v.locked(func() { delete(v.astray, topic) })
	v.kgo.PurgeTopicsFromClient(topic)
	for until := time.Now().Add(takenLimit); v.has(topic) && time.Now().Before(until); {
		if !engine.Sleep(ctx, 5*time.Millisecond) {
			return
		}
	}
	v.kgo.AddConsumeTopics(topic)
	v.begun[topic] = time.Now()
}

func (w *Worker) isAstray(topic string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.astray[topic]
}

// measureEnds keeps the lag true while nothing is polled.
func (w *Worker) measureEnds(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ends, err := w.adm.ListEndOffsets(ctx, w.set.topics...)
	if err != nil {
		return // the next look says why
	}
	for topic, parts := range ends {
		for partition, end := range parts {
			if end.Err == nil {
				w.table.saw(place{Topic: topic, Partition: partition}, end.Offset)
			}
		}
	}
}
