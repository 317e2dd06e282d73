package kafka

import (
	"context"
	"fmt"
	"maps"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicMeta is what the cluster's metadata says of a topic.
type topicMeta struct {
	id  topicID
	err error
}

// metadata asks a broker for the cluster's id and the given topics, past the client's cache: the client keeps the id of
// a topic that was deleted and created again.
func (w *base) metadata(ctx context.Context, broker kmsg.Requestor, topics []string) (cluster string, metas map[string]topicMeta, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	for _, t := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(t)
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, broker)
	if err != nil {
		return "", nil, fmt.Errorf("ask for metadata: %w", err)
	}
	if resp.ClusterID != nil {
		cluster = *resp.ClusterID
	}
	metas = make(map[string]topicMeta, len(resp.Topics))
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if t.Topic == nil {
			continue
		}
		m := topicMeta{id: t.TopicID, err: kerr.ErrorForCode(t.ErrorCode)}
		if w.set.NameIdentity {
			m.id = topicID{}
		}
		metas[*t.Topic] = m
	}
	for _, t := range topics {
		if _, ok := metas[t]; !ok {
			metas[t] = topicMeta{err: kerr.UnknownTopicOrPartition}
		}
	}
	return cluster, metas, nil
}

// remembered returns the metadata of the offsets that were fetched last, and the topics that were created anew while we
// ran. The group may be given the new topic before the watcher has seen it: with StartLatest, whose position is the log's
// end, records that nobody has seen would count as past.
func (w *Worker) remembered(metas map[string]topicMeta) (notes map[place]string, reborn map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen(metas)
	return maps.Clone(w.notes), maps.Clone(w.reborn)
}

// seen notes the topics' ids. The worker is locked.
func (w *Worker) seen(metas map[string]topicMeta) {
	for topic, m := range metas {
		if was, ok := w.born[topic]; ok && was != m.id {
			w.reborn[topic] = true
		}
		w.born[topic] = m.id
	}
}
