package kafka

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// client is what the caller's kgo options say.
type client struct {
	opts             []kgo.Opt
	group            string
	topics           []string
	rebalance        time.Duration
	rebalanceDefault time.Duration
}

// forbidden are the options that would break a promise, and why.
var forbidden = []struct {
	opt  any
	name string
	why  string
}{
	{kgo.AutoCommitMarks, "AutoCommitMarks", "offsets are committed by the worker alone, once the ledger is terminal"},
	{kgo.GreedyAutoCommit, "GreedyAutoCommit", "offsets are committed by the worker alone, once the ledger is terminal"},
	{kgo.AutoCommitInterval, "AutoCommitInterval", "offsets are committed by the worker alone: see Config.CommitInterval"},
	{kgo.AutoCommitCallback, "AutoCommitCallback", "offsets are committed by the worker alone"},
	{kgo.OnPartitionsAssigned, "OnPartitionsAssigned", "the worker needs it for its offset trackers"},
	{kgo.OnPartitionsRevoked, "OnPartitionsRevoked", "the worker needs it to drain and commit"},
	{kgo.OnPartitionsLost, "OnPartitionsLost", "the worker needs it to drop its offset trackers"},
	{kgo.OnPartitionsCallbackBlocked, "OnPartitionsCallbackBlocked", "the worker allows rebalances itself, at once"},
	{kgo.OnOffsetsFetched, "OnOffsetsFetched", "the worker needs it to recognise recreated topics"},
	{kgo.AdjustFetchOffsetsFn, "AdjustFetchOffsetsFn", "the worker needs it to recognise recreated topics"},
	{kgo.ConsumePartitions, "ConsumePartitions", "partitions come from the group"},
	{kgo.ConsumeRegex, "ConsumeRegex", "a topic is part of each message's identity and is named: see ConsumeTopics"},
	{kgo.ConsumeStartOffset, "ConsumeStartOffset", "see Config.Start"},
	{kgo.ConsumeResetOffset, "ConsumeResetOffset", "see Config.Reset"},
	{kgo.ShareGroup, "ShareGroup", "the worker is a member of a consumer group"},
	{kgo.GroupProtocol, "GroupProtocol", "the worker uses the protocols of consumers"},
}

// examine reads the caller's options from a client that is built of them and closed at once. Its context is cancelled
// before it is built, so it connects to nobody.
func examine(opts []kgo.Opt) (client, error) {
	if i := slices.Index(opts, nil); i >= 0 {
		return client{}, fmt.Errorf("kafka: option %d of %d is nil", i+1, len(opts))
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	plain, err := kgo.NewClient(kgo.WithContext(ended))
	if err != nil {
		return client{}, fmt.Errorf("kafka: %w", err)
	}
	defer plain.CloseAllowingRebalance()
	// A client in a group wraps its callbacks, so that they all look set; one without a group shows them as they are.
	bare, err := kgo.NewClient(slices.Concat(opts, []kgo.Opt{kgo.ConsumerGroup(""), kgo.WithContext(ended)})...)
	if err != nil {
		return client{}, fmt.Errorf("kafka: the client's options: %w", err)
	}
	defer bare.CloseAllowingRebalance()
	for _, f := range forbidden {
		if !sameOption(bare.OptValue(f.opt), plain.OptValue(f.opt)) {
			return client{}, fmt.Errorf("kafka: kgo.%s must not be set: %s", f.name, f.why)
		}
	}
	full, err := kgo.NewClient(slices.Concat(opts, []kgo.Opt{kgo.WithContext(ended)})...)
	if err != nil {
		return client{}, fmt.Errorf("kafka: the client's options: %w", err)
	}
	defer full.CloseAllowingRebalance()
	c := client{opts: opts}
	c.group, _ = full.OptValue(kgo.ConsumerGroup).(string)
	c.rebalance, _ = full.OptValue(kgo.RebalanceTimeout).(time.Duration)
	c.rebalanceDefault, _ = plain.OptValue(kgo.RebalanceTimeout).(time.Duration)
	topics, _ := full.OptValue(kgo.ConsumeTopics).(map[string]*regexp.Regexp)
	c.topics = slices.Sorted(maps.Keys(topics))
	return c, c.check()
}

func (c *client) check() error {
	switch {
	case c.group == "":
		return fmt.Errorf("kafka: kgo.ConsumerGroup: must be set to a group of 1 to 255 bytes, is empty")
	case len(c.group) > 255:
		return fmt.Errorf("kafka: kgo.ConsumerGroup: must be 1 to 255 bytes, is %d bytes", len(c.group))
	case len(c.topics) == 0:
		return fmt.Errorf("kafka: kgo.ConsumeTopics: must name at least 1 topic, names 0")
	case slices.Contains(c.topics, ""):
		return fmt.Errorf("kafka: kgo.ConsumeTopics: a topic's name must have 1 to 249 characters, one has 0")
	}
	return nil
}

// sameOption compares values of one option. Functions are the same only if both are nil.
func sameOption(a, b any) bool {
	if va := reflect.ValueOf(a); va.IsValid() && va.Kind() == reflect.Func {
		vb := reflect.ValueOf(b)
		return va.IsNil() && (!vb.IsValid() || vb.IsNil())
	}
	return reflect.DeepEqual(a, b)
}
