package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ackledger/ackledger/internal/killpoint"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// commitTimeout is that of one commit: it waits through a whole join of the group.
const commitTimeout = 5 * time.Second

// commitLoop is the one committer. What it commits is the finished prefix of partitions that are ours at that moment.
func (w *Worker) commitLoop(ctx context.Context) {
	t := time.NewTicker(w.set.CommitInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			w.commitDue(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// commitDue commits what the open assignments have finished.
func (w *Worker) commitDue(ctx context.Context) {
	w.owning.Lock()
	defer w.owning.Unlock()
	if points := w.table.due(); len(points) > 0 {
		_ = w.send(ctx, points) // it has said what went wrong; the next round repeats it
	}
}

// settleTime is how long the engine may take, after a drain's time is up, to give back what it still has in hand.
const settleTime = time.Second

// commitAndDiscard waits, no longer than limit, until the engine has given back all of closed assignments, commits their
// finished prefix, and lets go of them.
func (w *Worker) commitAndDiscard(ctx context.Context, list []*assignment, limit time.Duration) {
	timeout, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, a := range list {
		select {
		case <-a.empty:
		case <-timeout.Done():
		}
	}
	w.owning.Lock()
	defer w.owning.Unlock()
	if points := w.table.dueOf(list); len(points) > 0 {
		_ = w.send(ctx, points) // it has said what went wrong; the ledger knows what is delivered again
	}
	w.table.discard(list)
}

// commitAll ends all assignments, after the engine's drain.
func (w *Worker) commitAll(ctx context.Context) {
	w.commitAndDiscard(ctx, w.table.close(func(*assignment) bool { return true }), settleTime)
}

// send commits and says what went wrong. The lock of ownership is held. What is not committed is committed by the next
// round, or, if there is none, delivered again and known to the ledger.
func (w *Worker) send(ctx context.Context, points []point) error {
	failed := w.trySend(ctx, points)
	var worst error
	for _, p := range points {
		err := failed[p.place]
		if err == nil {
			w.table.confirm(p)
			continue
		}
		err = fmt.Errorf("commit offset %d of topic %q partition %d: %w", p.offset, p.Topic, p.Partition, err)
		if errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.UnknownTopicOrPartition) {
			w.lookAt(p.Topic)
		}
		if worst == nil || heals(worst) {
			worst = err
		}
	}
	switch {
	case worst == nil:
	case !heals(worst):
		w.fail(worst)
	case ctx.Err() == nil:
		w.log.Info("offsets are not committed yet", zap.Error(worst), zap.Int("partitions", len(failed)))
	}
	return worst
}

// trySend commits and returns the error of each partition that has one.
func (w *Worker) trySend(ctx context.Context, points []point) map[place]error {
	failed := map[place]error{}
	topics := map[string]topicID{}
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for _, p := range points {
		topics[p.Topic] = p.id
		if offsets[p.Topic] == nil {
			offsets[p.Topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[p.Topic][p.Partition] = kgo.EpochOffset{Epoch: p.epoch, Offset: p.offset}
		failed[p.place] = errNoAnswer
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		stamp(req, w.signature(), w.cluster, topics)
		return nil
	})
	killpoint.At(killpoint.BeforeAck)
	w.kgo.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			for p := range failed {
				failed[p] = err
			}
			return
		}
		readAnswers(req, resp, failed)
	})
	killpoint.At(killpoint.AfterAck)
	return failed
}

var errNoAnswer = errors.New("the broker's answer does not name the partition")

// stamp gives each partition's commit the ids of ledger and topic as metadata, and the commit itself the id of the topic that was
// read, so that a broker that knows ids (OffsetCommit 10, Kafka 4) refuses it for another topic of that name. What the
// client already takes for another topic is left out.
func stamp(req *kmsg.OffsetCommitRequest, ledger, cluster string, topics map[string]topicID) {
	req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.OffsetCommitRequestTopic) bool {
		id := topics[t.Topic]
		return id != (topicID{}) && t.TopicID != [16]byte{} && t.TopicID != id
	})
	for i := range req.Topics {
		t := &req.Topics[i]
		id := topics[t.Topic]
		if t.TopicID == [16]byte{} {
			t.TopicID = id
		}
		for j := range t.Partitions {
			t.Partitions[j].Metadata = kmsg.StringPtr(noteIn(ledger, cluster, id))
		}
	}
}

// readAnswers removes from failed what was committed, and notes why the rest was not.
func readAnswers(req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, failed map[place]error) {
	names := map[[16]byte]string{}
	for i := range req.Topics {
		names[req.Topics[i].TopicID] = req.Topics[i].Topic
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		topic := cmp.Or(t.Topic, names[t.TopicID])
		for _, p := range t.Partitions {
			at := place{Topic: topic, Partition: p.Partition}
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				failed[at] = err
			} else {
				delete(failed, at)
			}
		}
	}
}

// signature is the ledger's id, as commits name it; empty: they name none.
func (w *Worker) signature() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ours
}
