package kafka

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// client is what the caller's kgo options say.
type client struct {
	opts             []kgo.Opt
	group            string
	seeds            []string
	topics           []string
	instance         string // kgo.InstanceID; empty: a dynamic member
	rebalance        time.Duration
	rebalanceDefault time.Duration
}

// option is one that is refused, and why.
type option struct {
	opt       any
	name, why string
}

// forbidden are the options that would break a promise, and why.
var forbidden = []option{
	{kgo.AutoCommitMarks, "AutoCommitMarks", "offsets are committed by the worker alone, once the ledger is terminal"},
	{kgo.GreedyAutoCommit, "GreedyAutoCommit", "offsets are committed by the worker alone, once the ledger is terminal"},
	{kgo.AutoCommitInterval, "AutoCommitInterval", "offsets are committed by the worker alone: see Config.CommitInterval"},
	{kgo.OnPartitionsCallbackBlocked, "OnPartitionsCallbackBlocked", "the worker allows rebalances itself, at once"},
	{kgo.OnOffsetsFetched, "OnOffsetsFetched", "the worker needs it to recognise recreated topics"},
	{kgo.AdjustFetchOffsetsFn, "AdjustFetchOffsetsFn", "the worker needs it to recognise recreated topics"},
	{kgo.ConsumeRegex, "ConsumeRegex", "a topic is part of each message's identity and is named: see ConsumeTopics"},
	{kgo.ConsumeResetOffset, "ConsumeResetOffset", "see Config.Reset"},
	{kgo.ConsumeStartOffset, "ConsumeStartOffset", "see Config.Start"},
	{kgo.GroupProtocol, "GroupProtocol", "the worker uses the protocols of consumers"},
}

// groupless are options that a client in a group does not take at all.
var groupless = []option{
	{kgo.ConsumePartitions, "ConsumePartitions", "partitions come from the group"},
	{kgo.ShareGroup, "ShareGroup", "the worker is a member of a consumer group"},
}

// callbacks cannot be read from a client: one in a group wraps them, so that they all look set, and one without a group
// does not take them. An option that is refused alone, and is not once a callback is unset, is that callback.
var callbacks = []struct {
	unset     kgo.Opt
	name, why string
}{
	{kgo.OnPartitionsAssigned(nil), "OnPartitionsAssigned", "the worker needs it for its offset trackers"},
	{kgo.OnPartitionsRevoked(nil), "OnPartitionsRevoked", "the worker needs it to drain and commit"},
	{kgo.OnPartitionsLost(nil), "OnPartitionsLost", "the worker needs it to drop its offset trackers"},
	{kgo.AutoCommitCallback(nil), "AutoCommitCallback", "offsets are committed by the worker alone"},
}

// examine reads the caller's options from clients that are built of them and closed at once. Their context is cancelled
// before they are built, so they connect to nobody.
func examine(opts []kgo.Opt) (client, error) {
	if i := slices.Index(opts, nil); i >= 0 {
		return client{}, fmt.Errorf("kafka: option %d of %d is nil", i+1, len(opts))
	}
	for _, cb := range callbacks {
		if slices.ContainsFunc(opts, func(o kgo.Opt) bool {
			return kgo.ValidateOpts(o) != nil && kgo.ValidateOpts(o, cb.unset) == nil
		}) {
			return client{}, refused(cb.name, cb.why)
		}
	}
	plain, err := probe(nil)
	if err != nil {
		return client{}, fmt.Errorf("kafka: the client's defaults: %w", err)
	}
	bare, err := probe(slices.DeleteFunc(slices.Clone(opts), needsGroup), kgo.ConsumerGroup(""))
	if err != nil {
		return client{}, err
	}
	for _, f := range groupless { // of functions, two are deeply equal if both are nil
		if !reflect.DeepEqual(bare.OptValue(f.opt), plain.OptValue(f.opt)) {
			return client{}, refused(f.name, f.why)
		}
	}
	full, err := probe(opts)
	if err != nil {
		return client{}, err
	}
	for _, f := range forbidden {
		if !reflect.DeepEqual(full.OptValue(f.opt), plain.OptValue(f.opt)) {
			return client{}, refused(f.name, f.why)
		}
	}
	c := client{opts: opts}
	c.group, _ = full.OptValue(kgo.ConsumerGroup).(string)
	c.seeds, _ = full.OptValue(kgo.SeedBrokers).([]string)
	c.instance, _ = full.OptValue(kgo.InstanceID).(string)
	c.rebalance, _ = full.OptValue(kgo.RebalanceTimeout).(time.Duration)
	c.rebalanceDefault, _ = plain.OptValue(kgo.RebalanceTimeout).(time.Duration)
	if c.topics, err = topicsOf(full.OptValue(kgo.ConsumeTopics)); err != nil {
		return client{}, err
	}
	return c, c.check("ConsumerGroup")
}

// topicsOf reads what the client says of kgo.ConsumeTopics: a map up to kgo 1.22.2, a slice from 1.22.3 on. The module of
// whoever imports this one chooses which.
func topicsOf(value any) ([]string, error) {
	switch topics := value.(type) {
	case []string:
		return slices.Sorted(slices.Values(topics)), nil
	case map[string]*regexp.Regexp:
		return slices.Sorted(maps.Keys(topics)), nil
	default:
		return nil, fmt.Errorf("kafka: kgo.ConsumeTopics: this client's version says its topics as %T, which is not known here", value)
	}
}

func refused(name, why string) error {
	return fmt.Errorf("kafka: kgo.%s must not be set: %s", name, why)
}

// needsGroup says whether an option is refused because no group goes with it.
func needsGroup(o kgo.Opt) bool {
	return kgo.ValidateOpts(o) != nil && kgo.ValidateOpts(o, kgo.ConsumerGroup("any")) == nil
}

// probe builds a client that connects to nobody and closes it: its options can still be read.
func probe(opts []kgo.Opt, more ...kgo.Opt) (*kgo.Client, error) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	c, err := kgo.NewClient(slices.Concat(opts, more, []kgo.Opt{kgo.WithContext(ended)})...)
	if err != nil {
		return nil, fmt.Errorf("kafka: the client's options: %w", err)
	}
	c.CloseAllowingRebalance()
	return c, nil
}

// check names the group's option as it is asked for.
func (c *client) check(group string) error {
	switch {
	case c.group == "":
		return fmt.Errorf("kafka: kgo.%s: must be set to a group of 1 to 255 bytes, is empty", group)
	case len(c.group) > 255:
		return fmt.Errorf("kafka: kgo.%s: must be 1 to 255 bytes, is %d bytes", group, len(c.group))
	case len(c.topics) == 0:
		return fmt.Errorf("kafka: kgo.ConsumeTopics: must name at least 1 topic, names 0")
	case len(c.seeds) == 0 || slices.ContainsFunc(c.seeds, func(s string) bool { return s == "" || strings.ContainsAny(s, ", ") }):
		return fmt.Errorf("kafka: kgo.SeedBrokers: must be host:port, at least 1, each a string of its own, are %q", c.seeds)
	}
	for _, topic := range c.topics {
		if !isTopicName(topic) {
			return fmt.Errorf("kafka: kgo.ConsumeTopics: a topic's name must be 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', is %.300q", topic)
		}
	}
	return nil
}

// isTopicName says what Kafka accepts (org.apache.kafka.common.internals.Topic). A replay asks for each message.
func isTopicName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return s != "" && len(s) <= 249
}
