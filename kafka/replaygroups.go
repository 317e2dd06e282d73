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

// knows says whether all brokers that tell what they know have a request.
func knows(ctx context.Context, adm *kadm.Client, req kmsg.Request) (bool, error) {
	versions, err := adm.ApiVersions(ctx)
	if err != nil {
		return false, fmt.Errorf("kafka: ask for the brokers' versions: %w", err)
	}
	for _, v := range versions {
		if _, known := v.KeyMaxVersion(req.Key()); v.Err == nil && !known {
			return false, nil
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
		if offsets.Err != nil {
			return nil, fmt.Errorf("kafka: offsets of group %q: %w", group, offsets.Err)
		}
		for topic := range offsets.Fetched {
			add(topic, group)
		}
	}
	if err := members(ctx, adm, names, add); err != nil {
		return nil, err
	}
	out := make(map[string][]string, len(found))
	for topic, groups := range found {
		out[topic] = slices.Sorted(maps.Keys(groups))
	}
	return out, nil
}

// members adds what groups read that have not committed yet. Groups of the new protocol (KIP-848) are described by a request
// that older clusters do not have; either request does not find the groups of the other protocol.
func members(ctx context.Context, adm *kadm.Client, names []string, add func(topic, group string)) error {
	if len(names) == 0 {
		return nil
	}
	note := func(group string, err error, read kadm.TopicsSet) error {
		if err != nil && !errors.Is(err, kerr.GroupIDNotFound) && !errors.Is(err, kerr.UnsupportedVersion) {
			return fmt.Errorf("kafka: describe group %q: %w", group, err)
		}
		for topic := range read {
			add(topic, group)
		}
		return nil
	}
	classic, err := adm.DescribeGroups(ctx, names...)
	if err != nil {
		return fmt.Errorf("kafka: describe the consumer groups: %w", err)
	}
	for name, g := range classic {
		if err := note(name, g.Err, g.AssignedPartitions()); err != nil {
			return err
		}
	}
	if known, err := knows(ctx, adm, kmsg.NewPtrConsumerGroupDescribeRequest()); err != nil || !known {
		return err
	}
	modern, err := adm.DescribeConsumerGroups(ctx, names...)
	if err != nil {
		return fmt.Errorf("kafka: describe the consumer groups of the new protocol: %w", err)
	}
	for name, g := range modern {
		if err := note(name, g.Err, g.AssignedPartitions()); err != nil {
			return err
		}
	}
	return nil
}
