package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// quietLook is how long a scan waits for records before it looks whether there are any.
	quietLook = 2 * time.Second
	// lookLimit bounds that look, and lookBytes what it reads at once.
	lookLimit = 5 * time.Second
	lookBytes = 1 << 20
)

// nothingLeft asks the leader of a topic's partition whether it has no record from an offset up to an end: compaction removes
// records, and their offsets stay. What cannot be found out is no: a broker that is away is no end.
func nothingLeft(ctx context.Context, cl *kgo.Client, name string, partition int32, next, end int64) bool {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	topics, err := kadm.NewClient(cl).ListTopics(ctx, name)
	if err != nil {
		return false
	}
	topic := topics[name]
	leader, ok := topic.Partitions[partition]
	if topic.Err != nil || !ok || leader.Err != nil {
		return false
	}
	for next < end {
		p, err := fetchAt(ctx, cl.Broker(int(leader.Leader)), &topic, partition, next)
		if err != nil {
			return false
		}
		if len(p.RecordBatches) == 0 {
			return p.LastStableOffset >= end // all of what was there when the scan began has been offered
		}
		read, after := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
			Offset: next, IsolationLevel: kgo.ReadCommitted(), KeepControlRecords: true, Topic: name, Partition: partition,
		}, p, kgo.DefaultDecompressor(), nil)
		switch {
		case read.Err != nil:
			return false
		case len(read.Records) > 0:
			return read.Records[0].Offset >= end
		case after <= next:
			return false // a batch that is larger than the answer
		}
		next = after
	}
	return true
}

// fetchAt reads what a partition has at an offset, outside of any fetch session.
func fetchAt(ctx context.Context, broker *kgo.Broker, topic *kadm.TopicDetail, partition int32, offset int64) (
	*kmsg.FetchResponseTopicPartition, error,
) {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, lookBytes
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID, t.Partitions = topic.Topic, topic.ID, append(t.Partitions, p)
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = 100, 1, lookBytes, 1 // committed
	req.SessionEpoch, req.Topics = -1, append(req.Topics, t)
	resp, err := req.RequestWith(ctx, broker)
	switch {
	case err != nil:
		return nil, err
	case resp.ErrorCode != 0:
		return nil, kerr.ErrorForCode(resp.ErrorCode)
	case len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1:
		return nil, kerr.UnknownTopicOrPartition
	}
	got := &resp.Topics[0].Partitions[0]
	return got, kerr.ErrorForCode(got.ErrorCode)
}
