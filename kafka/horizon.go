package kafka

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

// Bounds of the questions where partitions end. Polls wait for the answer, and the group for them.
const (
	endsTimeout = 3 * time.Second
	endsPause   = 30 * time.Second // after one that had no answer
)

// end is where a partition ends, for those who read what is committed.
type end struct {
	offset int64
	epoch  int32 // the latest of the log; -1: not told
}

// reaches says whether a record could have been delivered from below the end. A record keeps the epoch that it was written
// with, so one of a later epoch is yet to come, wherever.
func (e end) reaches(offset int64, epoch int32) bool {
	return offset < e.offset && (e.epoch < 0 || epoch <= e.epoch)
}

// silent is the end of a partition that does not tell.
var silent = end{offset: -1}

// extent is how far a topic reaches.
type extent struct {
	id   topicID
	ends map[int32]end // of all its partitions
}

// extentOf asks for it.
func extentOf(ctx context.Context, cl *kgo.Client, topic string) (extent, error) {
	ctx, cancel := context.WithTimeout(ctx, endsTimeout)
	defer cancel()
	adm := kadm.NewClient(cl)
	metas, err := adm.Metadata(ctx, topic)
	if err = cmp.Or(err, metas.Topics[topic].Err); err != nil {
		return extent{}, fmt.Errorf("ask for metadata of topic %q: %w", topic, err)
	}
	listed, err := adm.ListCommittedOffsets(ctx, topic)
	if len(listed) == 0 && err != nil {
		return extent{}, fmt.Errorf("list where topic %q ends: %w", topic, err)
	}
	x := extent{topicID(metas.Topics[topic].ID), map[int32]end{}}
	for p := range metas.Topics[topic].Partitions {
		x.ends[p] = silent
	}
	for p, o := range listed[topic] {
		if o.Err == nil && p >= 0 {
			x.ends[p] = end{o.Offset, o.LeaderEpoch}
		}
	}
	return x, nil
}

// horizon is how far the topics' logs are known to reach: what a stamp that nobody has signed may name. It belongs to poll's
// goroutine, and asks the cluster once in a poll about a topic at most, so that a flood of forged stamps costs no more.
type horizon struct {
	ask    func(ctx context.Context, topic string) (extent, error)
	log    *zap.Logger
	ctx    context.Context // of the poll
	topics map[string]*known
}

// known is what was answered last of a topic.
type known struct {
	extent
	fresh   bool      // in this poll: what it brought was there before
	unasked time.Time // until then, since there was no answer
}

func newHorizon(log *zap.Logger, ask func(context.Context, string) (extent, error)) *horizon {
	return &horizon{ask: ask, log: log, ctx: context.Background(), topics: map[string]*known{}}
}

// begin is called with each poll.
func (h *horizon) begin(ctx context.Context) {
	h.ctx = ctx
	for _, k := range h.topics {
		k.fresh = false
	}
}

// reaches says whether a partition of a topic, the one with this id, reaches beyond a place. Who does not get to know
// says yes: a copy of a failed record that was taken for another would be done twice, and what a forged stamp hides is
// archived.
func (h *horizon) reaches(topic string, id topicID, partition int32, offset int64, epoch int32) bool {
	k := h.topics[topic]
	if k == nil || k.id != id {
		k = &known{extent: extent{id: id}}
		h.topics[topic] = k
	}
	if e, ok := k.ends[partition]; ok && e.reaches(offset, epoch) {
		return true
	}
	if !k.fresh && time.Now().After(k.unasked) {
		k.refresh(h, topic)
	}
	e, ok := k.ends[partition]
	return !k.fresh || ok && (e == silent || e.reaches(offset, epoch))
}

// refresh asks where the topic ends now. The answer about another topic of this name, which was created since, says nothing.
func (k *known) refresh(h *horizon, topic string) {
	x, err := h.ask(h.ctx, topic)
	if err != nil {
		k.unasked = time.Now().Add(endsPause)
		h.log.Warn("where a topic ends is not known: stamps count without a look", zap.String("topic", topic), zap.Error(err))
		return
	}
	if k.id != (topicID{}) && x.id != k.id {
		k.unasked = time.Now().Add(endsPause)
		return
	}
	k.fresh, k.ends = true, x.ends
	for p, e := range x.ends {
		if e == silent {
			k.unasked = time.Now().Add(endsPause)
			h.log.Warn("where a partition ends is not known: stamps count without a look for a while", zap.String("topic", topic), zap.Int32("partition", p))
			return
		}
	}
}

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
