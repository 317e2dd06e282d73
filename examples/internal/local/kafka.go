package local

import (
	"context"
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka names the brokers of a cluster, a real one or one in this process.
type Kafka struct {
	Brokers []string
	cluster *kfake.Cluster // nil: a real one
	client  *kgo.Client
	topic   string
}

// OpenKafka returns the given brokers (comma-separated) if there are any. Else it starts a cluster in this process with a
// topic of one partition, and produces the records to it.
func OpenKafka(ctx context.Context, brokers, topic string, records ...*kgo.Record) (*Kafka, error) {
	if brokers != "" {
		return &Kafka{Brokers: strings.Split(brokers, ",")}, nil
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		cluster.Close()
		return nil, err
	}
	k := &Kafka{Brokers: cluster.ListenAddrs(), cluster: cluster, client: client, topic: topic}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// Real says that the cluster is not in this process.
func (k *Kafka) Real() bool { return k.cluster == nil }

// Close ends the cluster in this process.
func (k *Kafka) Close() {
	if k.cluster != nil {
		k.client.Close()
		k.cluster.Close()
	}
}

// StopWhenCommitted calls stop once the group has committed the end of the topic in this process; with a real cluster it
// does nothing.
func (k *Kafka) StopWhenCommitted(ctx context.Context, group string, stop func()) {
	if k.cluster != nil {
		go poll(ctx, stop, func(ctx context.Context) bool { return k.committed(ctx, group) })
	}
}

// committed says whether the group has committed the end of the topic in this process.
func (k *Kafka) committed(ctx context.Context, group string) bool {
	adm := kadm.NewClient(k.client)
	ends, err := adm.ListEndOffsets(ctx, k.topic)
	committed, fetchErr := adm.FetchOffsets(ctx, group)
	if errors.Join(err, fetchErr) != nil {
		return false // the group is not there yet
	}
	end, _ := ends.Lookup(k.topic, 0)
	at, ok := committed.Lookup(k.topic, 0)
	return ok && at.At == end.Offset
}

// SetShareGroup alters the settings of a share group in this process; with a real cluster it does nothing.
func (k *Kafka) SetShareGroup(ctx context.Context, group string, settings map[string]string) error {
	if k.cluster == nil {
		return nil
	}
	return AlterShareGroup(ctx, k.client, group, settings)
}

// AlterShareGroup is what kafka-configs.sh --alter --group does.
func AlterShareGroup(ctx context.Context, client *kgo.Client, group string, settings map[string]string) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	of := kmsg.NewIncrementalAlterConfigsRequestResource()
	of.ResourceType, of.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	for name, value := range settings {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = name, &value
		of.Configs = append(of.Configs, c)
	}
	req.Resources = append(req.Resources, of)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Resources[0].ErrorCode)
}

// StopWhenAccepted is StopWhenCommitted for a share group: it has accepted all records.
func (k *Kafka) StopWhenAccepted(ctx context.Context, group string, stop func()) {
	if k.cluster != nil {
		go poll(ctx, stop, func(ctx context.Context) bool {
			all, err := kadm.NewClient(k.client).DescribeShareGroupOffsets(ctx, group)
			at, ok := all[group].Offsets[k.topic][0]
			return err == nil && ok && at.Lag == 0
		})
	}
}
