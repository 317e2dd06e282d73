package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/replay"
)

func (d *doctor) visitTopics(ctx context.Context, op ledger.Operator, behind time.Duration, f *findings) {
	if len(d.topics) == 0 {
		return
	}
	client, err := d.brokers.client()
	if err != nil {
		f.add(unknown, "topics", err.Error(), "mend the flags")
		return
	}
	defer client.Close()
	d.visitTransport(f)
	admin := kadm.NewClient(client)
	meta, err := admin.Metadata(ctx, d.topics...)
	if err != nil {
		f.add(unknown, "topics", "the brokers: "+err.Error(), "check --brokers, TLS and SASL")
		return
	}
	for _, name := range d.topics {
		topic := meta.Topics[name]
		if topic.Err != nil || len(topic.Partitions) == 0 {
			f.add(problem, "topic "+text(name), fmt.Sprintf("%v", topic.Err), "check its name, and Describe on it")
			continue
		}
		if topic.ID == (kadm.TopicID{}) {
			f.add(warning, "topic "+text(name), "the cluster has no topic ids: a topic that is made anew uses the same offsets again", "workers need Config.NameIdentity; never make a topic anew under its name")
		}
		d.visitTopic(ctx, admin, op, meta.Cluster, name, behind, f)
	}
}

func (d *doctor) visitTopic(ctx context.Context, admin *kadm.Client, op ledger.Operator, cluster, topic string, behind time.Duration, f *findings) {
	check := "topic " + text(topic)
	configs, err := admin.DescribeTopicConfigs(ctx, topic)
	if err == nil && len(configs) == 1 {
		err = configs[0].Err
	}
	if err != nil || len(configs) != 1 {
		f.add(unknown, check, fmt.Sprintf("its configuration cannot be read: %v", err), "allow DescribeConfigs on it, or set Config.Window by hand")
		return
	}
	get := map[string]string{}
	for _, c := range configs[0].Configs {
		get[c.Key] = c.MaybeValue()
	}
	retention, segment := millisOf(get["retention.ms"]), millisOf(get["segment.ms"])
	if get["cleanup.policy"] != "delete" || retention <= 0 {
		f.add(warning, check, fmt.Sprintf("a record may stay for ever (cleanup.policy %s, retention.ms %s)", get["cleanup.policy"], get["retention.ms"]),
			"set Config.Window and Config.AllowShortWindow to say how long finished messages are recognised")
		return
	}
	f.add(good, check, "a record may be delivered for "+short(retention+segment), "")
	look := func(ctx context.Context, op ledger.Operator, scope string) (time.Duration, error) {
		window, err := committedWindow(ctx, admin, op, scope, topic)
		if window > 0 {
			return window, nil
		}
		rows, bad := windowOf(ctx, op, scope)
		if rows > 0 {
			return rows, nil
		}
		return 0, errors.Join(err, bad)
	}
	d.visitWindow(ctx, op, "kafka:"+url.PathEscape(cluster)+"/"+topic+"/", check, retention+segment+behind, look, f)
}

// committedWindow is the shortest window of what the ledger has of records that were finished or claimed within a day, one of each
// partition that the group has committed in; zero: there is none.
func committedWindow(ctx context.Context, admin *kadm.Client, op ledger.Operator, scope, topic string) (window time.Duration, err error) {
	_, group, _ := replay.ParseScope(scope)
	offsets, err := admin.FetchOffsetsForTopics(ctx, group, topic)
	if err != nil {
		return 0, fmt.Errorf("where group %s is: %w", text(group), err)
	}
	seen := 0
	for partition, o := range offsets[topic] {
		if o.Err != nil || o.At < 1 || seen == someRows {
			err = errors.Join(err, o.Err)
			continue
		}
		kept, bad := keptBefore(ctx, op, scope, topic, partition, o.At)
		if bad != nil {
			return 0, bad
		}
		if kept > 0 {
			seen++
			if window == 0 || kept < window {
				window = kept
			}
		}
	}
	return window, err
}

// keptBefore is for how long records of a partition are recognised that lie before an offset; zero: the ledger has had none within a day.
// It looks back in steps that double. A range speaks for its partition: a row beside ranges, of a record that was retried, expires early,
// since the ranges recognise the record as well.
func keptBefore(ctx context.Context, op ledger.Operator, scope, topic string, partition int32, end int64) (window time.Duration, err error) {
	since := time.Now().Add(-recently)
	for back := int64(1); back <= min(end, 1<<16); back *= 2 {
		found, err := op.Find(ledger.WithoutBodies(ctx), scope, fmt.Appendf(nil, "%s-%d-%d", topic, partition, end-back))
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return 0, err
		}
		for i := range found {
			switch kept, at := keptFor(&found[i]); {
			case !at.After(since):
			case found[i].In != nil:
				return kept, nil
			case found[i].Parked == nil && (window == 0 || kept < window):
				window = kept
			}
		}
	}
	return window, nil
}

// keptFor is for how long a message is recognised, counted from a time.
func keptFor(r *ledger.Record) (window time.Duration, from time.Time) {
	from = r.At
	if r.In != nil && !r.In.Until.IsZero() {
		from = r.In.Until
	}
	return r.Expiry.Sub(from).Round(time.Second), from
}

// millisOf reads a number of milliseconds; 0: none. What is longer than any window counts as one.
func millisOf(s string) time.Duration {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(min(n, int64(ledger.MaxWindow/time.Millisecond))) * time.Millisecond
}
