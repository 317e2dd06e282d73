package kafka

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// topicID is a topic's UUID (KIP-516); zero: the cluster has none, or names are used instead.
type topicID [16]byte

// String returns the id as Kafka's tools show it, and "-" for none.
func (id topicID) String() string {
	if id == (topicID{}) {
		return "-"
	}
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// topicSource is what the identity of a topic's records is made of, apart from the topic's id.
type topicSource struct {
	scope  string // of the ledger: group, cluster and topic
	name   string // as in consumer.Message.Source
	window time.Duration
	keeps  time.Duration // after a record's timestamp, at least; zero: for ever, or not known
}

// deadline is when the broker forgets a record, less a margin; zero: never, or not known. The timestamp is the
// producer's: one in the future is no reason to wait less, one of years ago is the engine's to ignore.
func (s *topicSource) deadline(sent time.Time) time.Time {
	if s.keeps == 0 {
		return time.Time{}
	}
	return sent.Add(s.keeps - min(5*time.Minute, s.keeps/10))
}

// newTopicSource joins the parts so that no two triples look alike: the cluster is escaped and a topic's name has no
// slash, so the group is what is left.
func newTopicSource(group, cluster, topic string) (topicSource, error) {
	s := topicSource{
		scope: "kafka:" + url.PathEscape(cluster) + "/" + topic + "/" + group,
		name:  cluster + "/" + topic,
	}
	longest := new(arena).deliveryID(LogName(cluster, topic, topicID{}, math.MaxInt32), math.MaxInt32, math.MaxInt64)
	if n := max(len(s.scope), len(longest)); n > min(ledger.MaxScope, ledger.MaxDelivery) {
		return s, fmt.Errorf("kafka: cluster id, topic and group: must be at most %d bytes together, are %d", ledger.MaxScope, n)
	}
	return s, nil
}

// LogName is the name under which a worker's ledger knows one partition: ledger.Position.Log, of which, with the leader
// epoch and the offset, a record's key is made. id is the topic's UUID, as the cluster's metadata tells it; zero for
// workers with Config.NameIdentity. For operators' tools, which look a record up by its position.
func LogName(cluster, topic string, id [16]byte, partition int32) string {
	who := topicID(id).String()
	if id == (topicID{}) {
		who = "name:" + topic
	}
	return url.PathEscape(cluster) + "/" + who + "/" + strconv.Itoa(int(partition))
}

// partitionOf reads the partition of a log of the same topic as ours: names differ behind the last slash alone.
func partitionOf(log, ours string) (int32, bool) {
	topic, text := cutPartition(log)
	if same, _ := cutPartition(ours); topic != same {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
		return 0, false
	}
	return int32(n), true
}

func cutPartition(log string) (topic, partition string) {
	i := strings.LastIndexByte(log, '/')
	return log[:i+1], log[i+1:]
}

// limits is what a topic's configuration says of how long and how large its records may be.
type limits struct {
	window   time.Duration // in which the broker may deliver a record; zero: see unknown
	keeps    time.Duration // retention.ms, with which a record is forgotten at the earliest; zero: see unknown
	atAppend bool          // by the time of the append, not by the record's own
	unknown  string        // why there is no window
	maxBytes int64         // of a batch of records; zero: not known
	err      error         // why the brokers do not say; nil: they did, or may not
}

// behind adds how long a copy may lie where dead letters go, from where it may be sent again. err is why that is not known.
func (l limits) behind(target time.Duration, err error) limits {
	if l.window == 0 {
		return l
	}
	l.window += target
	switch {
	case errors.Is(err, consumer.ErrUnbounded):
		l.window, l.unknown = 0, err.Error()
	case l.window > ledger.MaxWindow:
		l.window, l.unknown = 0, "it and Options.DeadLetter keep messages for more than "+ledger.MaxWindow.String()
	}
	return l
}

// limitsOf reads a topic's configuration. A record lives for retention.ms after its segment's newest record, and a
// segment is open for segment.ms (Kafka's topic configurations).
func limitsOf(get func(string) (string, bool)) limits {
	l := limits{}
	number := func(name string) (int64, bool) {
		text, ok := get(name)
		if !ok {
			return 0, false
		}
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil
	}
	l.maxBytes, _ = number("max.message.bytes")
	times, _ := get("message.timestamp.type")
	l.atAppend = times == "LogAppendTime"
	policy, known := get("cleanup.policy")
	retention, hasRetention := number("retention.ms")
	segment, hasSegment := number("segment.ms")
	switch {
	case !known || !hasRetention || !hasSegment:
		l.unknown = "its configuration cannot be read"
	case policy != "delete":
		l.unknown = "cleanup.policy is " + policy + ", so a record may stay for ever"
	case retention < 0:
		l.unknown = "retention.ms is -1, so a record stays for ever"
	default:
		l.window, l.keeps = milliseconds(retention)+milliseconds(segment), milliseconds(retention)
		if l.window > ledger.MaxWindow {
			l.window, l.keeps, l.unknown = 0, 0, "retention.ms and segment.ms are more than "+ledger.MaxWindow.String()
		}
	}
	return l
}

func milliseconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), int64(ledger.MaxWindow/time.Millisecond)+1)) * time.Millisecond
}

// describe reads the configuration of topics. A topic whose configuration may not be read has none, and one that the brokers
// do not answer for has the error that says why (limits.err).
func describe(ctx context.Context, adm *kadm.Client, topics ...string) (map[string]limits, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	configs, err := adm.DescribeTopicConfigs(ctx, topics...)
	if err != nil && !isForbidden(err) {
		return nil, fmt.Errorf("describe the topics' configurations: %w", err)
	}
	forbidden := err != nil // and then the answer may be of fewer topics
	out := make(map[string]limits, len(topics))
	for _, topic := range topics {
		c, err := configs.On(topic, nil)
		err = cmp.Or(err, c.Err)
		values := map[string]string{}
		for i := range c.Configs {
			if v := c.Configs[i].Value; v != nil && err == nil {
				values[c.Configs[i].Key] = *v
			}
		}
		l := limitsOf(func(name string) (string, bool) { v, ok := values[name]; return v, ok })
		if err != nil && !forbidden && !isForbidden(err) {
			l.err = fmt.Errorf("its configuration: %w", err)
		}
		out[topic] = l
	}
	return out, nil
}

func isForbidden(err error) bool {
	return errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed)
}

// windowFor decides how long a topic's finished messages are recognised. The warning, if there is one, is for Health.
func (s *settings) windowFor(topic string, l limits) (window time.Duration, warning string, err error) {
	switch {
	case s.Window == 0 && l.window == 0:
		return 0, "", fmt.Errorf("kafka: topic %q: %s: set Config.Window and Config.AllowShortWindow to say how long "+
			"finished messages are recognised", topic, l.unknown)
	case s.Window == 0:
		return l.window, "", nil
	case l.window > 0 && s.Window >= l.window:
		return s.Window, "", nil
	}
	bound, seen := l.window.String(), fmt.Sprintf("the broker may deliver a record for %s", l.window)
	if l.window == 0 {
		bound, seen = "unbounded", l.unknown
	}
	if !s.AllowShortWindow {
		return 0, "", fmt.Errorf("kafka: topic %q: Config.Window: must be at least %s (%s), is %s; "+
			"Config.AllowShortWindow accepts less", topic, bound, seen, s.Window)
	}
	return s.Window, fmt.Sprintf("topic %q: Config.Window is %s, but %s", topic, s.Window, seen), nil
}
