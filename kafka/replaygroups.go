package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maySeeGroups refuses a login that may not describe the cluster: without that right the broker leaves out of its list,
// without a word, each group that the login may not describe (Kafka's documentation, operations and resources on protocols,
// LIST_GROUPS), and one that reads the topic would get the copies. A cluster that does not tell the rights passes, as does
// one before Kafka 2.8, which is not asked (KIP-700).
func maySeeGroups(ctx context.Context, client *kgo.Client) error {
	req := kmsg.NewPtrDescribeClusterRequest()
	if known, err := knows(ctx, kadm.NewClient(client), req); err != nil || !known {
		return err
	}
	req.IncludeClusterAuthorizedOperations = true
	resp, err := req.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("kafka: ask for the rights on the cluster: %w", err)
	}
	const omitted = math.MinInt32
	if resp.ClusterAuthorizedOperations == omitted || slices.Contains(kadm.DecodeACLOperations(resp.ClusterAuthorizedOperations), kmsg.ACLOperationDescribe) {
		return nil
	}
	return fmt.Errorf("kafka: %w: another group that reads the topic would go unnoticed without Describe of the cluster; grant it, replay in place, or allow other groups",
		kerr.ClusterAuthorizationFailed)
}

// knows says whether all brokers that tell what they know have these requests.
func knows(ctx context.Context, adm *kadm.Client, reqs ...kmsg.Request) (bool, error) {
	versions, err := adm.ApiVersions(ctx)
	if err != nil {
		return false, fmt.Errorf("kafka: ask for the brokers' versions: %w", err)
	}
	for _, v := range versions {
		for _, req := range reqs {
			if _, known := v.KeyMaxVersion(req.Key()); v.Err == nil && !known {
				return false, nil
			}
		}
	}
	return true, nil
}

// readersOf asks for all groups that have committed offsets of a topic, or members that read it, by topic.
func readersOf(ctx context.Context, adm *kadm.Client) (map[string][]string, error) {
	listed, err := adm.ListGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("kafka: list the consumer groups: %w", err)
	}
	found := map[string]map[string]bool{}
	add := func(topic, group string) {
		if found[topic] == nil {
			found[topic] = map[string]bool{}
		}
		found[topic][group] = true
	}
	names := listed.Groups()
	for group, offsets := range adm.FetchManyOffsets(ctx, names...) {
		if offsets.Err != nil && !errors.Is(offsets.Err, kerr.GroupIDNotFound) { // a share group, or one that is gone
			return nil, fmt.Errorf("kafka: offsets of group %q: %w", group, offsets.Err)
		}
		for topic := range offsets.Fetched {
			add(topic, group)
		}
	}
	if err := members(ctx, adm, names, add); err != nil {
		return nil, err
	}
	if err := sharers(ctx, adm, add); err != nil {
		return nil, err
	}
	out := make(map[string][]string, len(found))
	for topic, groups := range found {
		out[topic] = slices.Sorted(maps.Keys(groups))
	}
	return out, nil
}

// members adds what groups read that have not committed yet. Groups of the new protocol (KIP-848) are described by a request
// that older clusters do not have; either request does not find the groups of the other protocol. Groups of Kafka Streams
// (KIP-1071) are found by what they have committed alone.
func members(ctx context.Context, adm *kadm.Client, names []string, add func(topic, group string)) error {
	if len(names) == 0 {
		return nil
	}
	classic, err := adm.DescribeGroups(ctx, names...)
	if err != nil {
		return describeError(err)
	}
	for name, g := range classic {
		if g.Err != nil && !errors.Is(g.Err, kerr.GroupIDNotFound) {
			return describeError(fmt.Errorf("group %q: %w", name, g.Err))
		}
		addAll(add, name, g.AssignedPartitions().Topics())
	}
	if known, err := knows(ctx, adm, kmsg.NewPtrConsumerGroupDescribeRequest()); err != nil || !known {
		return err
	}
	modern, err := adm.DescribeConsumerGroups(ctx, names...)
	if err != nil {
		return describeError(err)
	}
	for name, g := range modern {
		switch {
		case g.Err == nil, errors.Is(g.Err, kerr.GroupIDNotFound), errors.Is(g.Err, kerr.UnsupportedVersion): // the protocol is off
		case name == "" && errors.Is(g.Err, kerr.InvalidGroupID): // what commits without a name is no such group
		default:
			return describeError(fmt.Errorf("group %q: %w", name, g.Err))
		}
		addAll(add, name, g.AssignedPartitions().Topics(), g.TargetPartitions().Topics(), g.SubscribedTopics())
	}
	return nil
}

// sharers adds what share groups (KIP-932) read, now or when they have members again: they commit no offsets as others do.
func sharers(ctx context.Context, adm *kadm.Client, add func(topic, group string)) error {
	known, err := knows(ctx, adm, kmsg.NewPtrShareGroupDescribeRequest(), kmsg.NewPtrDescribeShareGroupOffsetsRequest())
	if err != nil || !known {
		return err
	}
	groups, err := adm.DescribeShareGroups(ctx)
	if err != nil {
		return describeError(err)
	}
	for name, g := range groups {
		if g.Err != nil && !errors.Is(g.Err, kerr.GroupIDNotFound) { // gone meanwhile
			return describeError(fmt.Errorf("share group %q: %w", name, g.Err))
		}
		addAll(add, name, g.AssignedPartitions().Topics())
		for _, m := range g.Members {
			addAll(add, name, m.SubscribedTopicNames)
		}
	}
	offsets, err := adm.DescribeShareGroupOffsets(ctx)
	if err != nil {
		return describeError(err)
	}
	for name, g := range offsets {
		if g.Err != nil && !errors.Is(g.Err, kerr.GroupIDNotFound) {
			return describeError(fmt.Errorf("offsets of share group %q: %w", name, g.Err))
		}
		addAll(add, name, slices.Collect(maps.Keys(g.Offsets)))
	}
	return nil
}

func addAll(add func(topic, group string), group string, topics ...[]string) {
	for _, topic := range slices.Concat(topics...) {
		add(topic, group)
	}
}

// describeError is why it is not known what a group reads. A broker keeps a whole group back from a login that may not
// describe each of its topics.
func describeError(err error) error {
	hint := ""
	if errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.GroupAuthorizationFailed) {
		hint = " (grant Describe of all groups and of the topics that they read, replay in place, or allow other groups)"
	}
	return fmt.Errorf("kafka: what other groups read is not known: %w%s", err, hint)
}
