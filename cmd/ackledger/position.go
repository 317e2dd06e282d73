package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/ackledger/ackledger/kafka"
	"github.com/ackledger/ackledger/ledger"
)

// maxEpochs is how many leader epochs of a partition, from the newest back, are tried for one record.
const maxEpochs = 1000

// position is what the id of a Kafka record says.
type position struct {
	topic     string
	partition int32
	offset    int64
}

// positionOf reads topic-partition-offset.
func positionOf(id string) (position, bool) {
	rest, offset, ok := cutLast(id)
	if !ok {
		return position{}, false
	}
	topic, partition, ok := cutLast(rest)
	o, err1 := strconv.ParseInt(offset, 10, 64)
	p, err2 := strconv.ParseInt(partition, 10, 32)
	if !ok || topic == "" || errors.Join(err1, err2) != nil || o < 0 || p < 0 {
		return position{}, false
	}
	return position{topic, int32(p), o}, true
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '-')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// byPosition asks each scope of the topic for the record. Which leader wrote it is not in its id, and a record that is
// gone from the log tells nobody: so all epochs are asked for, the newest first.
func (b *brokers) byPosition(ctx context.Context, op ledger.Operator, scope, id string, at position) ([]ledger.Record, error) {
	client, err := b.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	meta, err := kadm.NewClient(client).Metadata(ctx, at.topic)
	if err != nil {
		return nil, fmt.Errorf("the brokers: %w", err)
	}
	topic := meta.Topics[at.topic]
	partition, ok := topic.Partitions[at.partition]
	switch {
	case topic.Err != nil:
		return nil, fmt.Errorf("topic %s: %w", text(at.topic), topic.Err)
	case !ok:
		return nil, fmt.Errorf("topic %s has no partition %d", text(at.topic), at.partition)
	}
	scopes := []string{scope}
	if scope == "" {
		if scopes, err = topicScopes(ctx, op, meta.Cluster, at.topic); err != nil {
			return nil, err
		}
	}
	logs := []string{
		kafka.LogName(meta.Cluster, at.topic, topic.ID, at.partition),
		kafka.LogName(meta.Cluster, at.topic, kadm.TopicID{}, at.partition), // workers with NameIdentity
	}
	var found []ledger.Record
	for _, s := range scopes {
		for _, log := range logs {
			rec, err := inLog(ctx, op, s, id, &ledger.Position{Log: log, Epoch: partition.LeaderEpoch, Offset: at.offset, Prev: -1})
			if err != nil {
				return nil, err
			}
			found = append(found, rec...)
		}
	}
	return found, nil
}

// topicScopes are the scopes of all groups that consume the topic.
func topicScopes(ctx context.Context, op ledger.Operator, cluster, topic string) ([]string, error) {
	scopes, err := op.Scopes(ctx)
	prefix := "kafka:" + url.PathEscape(cluster) + "/" + topic + "/"
	return slices.DeleteFunc(scopes, func(s string) bool { return !strings.HasPrefix(s, prefix) }), err
}

// inLog asks for the record under the epoch of pos and those before it.
func inLog(ctx context.Context, op ledger.Operator, scope, id string, pos *ledger.Position) ([]ledger.Record, error) {
	oldest := max(pos.Epoch-maxEpochs, -1) // -1: records of before there were epochs
	for ; pos.Epoch >= oldest; pos.Epoch-- {
		rec, err := op.Get(ctx, ledger.Key{Scope: scope, ID: []byte(id), Pos: pos})
		if errors.Is(err, ledger.ErrNotFound) && len(rec.Archived) == 0 {
			continue
		}
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return nil, err
		}
		rec.Scope, rec.ID = scope, []byte(id)
		return []ledger.Record{rec}, nil
	}
	return nil, nil
}
