package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Publisher sends what was published inside of InTx to a topic: a target of consumer.Relay. Build it with [NewPublisher].
//
// A record has the message's key, body and headers, and its stamp. Records of one key go to one partition, as the client's partitioner has
// it, in their order. A record that is larger than the client's ProducerBatchMaxBytes is refused for good; so is one that the cluster
// refuses alone. A topic that is not there, and one that the client may not write, is a refusal that is counted.
//
// One gap is left in the order of a key: while the cluster refuses a record and the client has not said so yet, later records of its key may
// be handed over and taken. The refused one comes behind them, or to the archive.
//
// Before the first record it asks the topic for max.message.bytes (DescribeConfigs): a client that makes larger batches is told so, and
// sends nothing until both fit, since the cluster would refuse batches for the sake of none of their records. It counts as an outage: no
// message is given up for it. Without that right it is not asked.
type Publisher struct {
	topic *DeadLetterTopic // asks for the same of its client
	most  int              // bytes of a batch

	mu      sync.Mutex
	checked bool
}

var _ consumer.Publisher = (*Publisher)(nil)

// NewPublisher returns a target for consumer.Relay. The client is the caller's, who closes it after the workers have ended; it may be
// shared, but not be that of a worker. It must wait for all in-sync replicas and be idempotent (franz-go's defaults), and must not be
// transactional or flush by hand. Nothing is asked of the cluster before a message is there.
func NewPublisher(client *kgo.Client, topic string) (*Publisher, error) {
	t, err := NewDeadLetterTopic(client, topic)
	if err != nil {
		return nil, fmt.Errorf("kafka: NewPublisher: %w", err)
	}
	if client.OptValue(kgo.DisableIdempotentWrite) != false {
		return nil, refused("DisableIdempotentWrite", "records of one key would not keep their order")
	}
	most, ok := client.OptValue(kgo.ProducerBatchMaxBytes).(int32)
	if !ok {
		return nil, refused("ProducerBatchMaxBytes", "its value cannot be read")
	}
	return &Publisher{topic: t, most: int(most)}, nil
}

// String names the topic.
func (p *Publisher) String() string { return p.topic.topic }

// Source implements consumer.Publisher. The topic need not be there.
func (p *Publisher) Source(ctx context.Context) (string, error) {
	meta, err := kadm.NewClient(p.topic.client).BrokerMetadata(ctx)
	if err != nil {
		return "", p.named(err)
	}
	if meta.Cluster == "" {
		return "", nil
	}
	return SourceName(meta.Cluster, p.topic.topic), nil
}

// recordBytes is more than a record takes beside its key, value and headers (Kafka protocol, record batch).
const recordBytes = 160

// Publish implements consumer.Publisher.
func (p *Publisher) Publish(ctx context.Context, messages []consumer.Publication) []error {
	errs := make([]error, len(messages))
	if err := p.check(ctx); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	var behind failedKeys
	var sent sync.WaitGroup
	for i := range messages {
		m := &messages[i]
		r := p.record(m)
		if n := sizeOfRecord(r); n > p.most {
			errs[i] = consumer.Terminal(fmt.Errorf("kafka: topic %q: a record must be at most %d bytes (ProducerBatchMaxBytes), is %d", p.topic.topic, p.most, n))
			behind.add(m.Key)
			continue
		}
		if behind.has(m.Key) {
			errs[i] = errBehind
			continue
		}
		sent.Add(1)
		p.topic.client.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil { // the client has failed all that it had of the partition; what comes now would be sent
				behind.add(m.Key)
			}
			errs[i] = p.named(err)
			sent.Done()
		})
	}
	sent.Wait()
	return errs
}

// failedKeys are the keys of which a record has failed.
type failedKeys struct {
	mu   sync.Mutex
	keys map[string]bool
}

func (f *failedKeys) add(key []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys == nil {
		f.keys = map[string]bool{}
	}
	f.keys[string(key)] = true
}

func (f *failedKeys) has(key []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(key) > 0 && f.keys[string(key)]
}

// errBehind is the error of a message that was not sent.
var errBehind = ledger.MarkUnavailable(errors.New("kafka: an earlier message of its key has failed"))

func (p *Publisher) record(m *consumer.Publication) *kgo.Record {
	r := &kgo.Record{Topic: p.topic.topic, Value: m.Body}
	if len(m.Key) > 0 {
		r.Key = m.Key
	}
	for _, h := range m.Headers {
		if h.Name != consumer.StampName {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
	}
	if m.Stamp != nil {
		r.Headers = append(r.Headers, stampHeader(m.Stamp))
	}
	return r
}

func sizeOfRecord(r *kgo.Record) int {
	n := recordBytes + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + 10
	}
	return n
}

func (p *Publisher) named(err error) error {
	if err == nil {
		return nil
	}
	return failure(fmt.Errorf("kafka: topic %q: %w", p.topic.topic, err))
}

// failure says what kind of failure an error is: what the cluster, or the client, refuses for a record's own sake is Terminal, and what it
// refuses for the topic's is counted. Any other is an outage.
func failure(err error) error {
	switch {
	case err == nil || ledger.Unavailable(err):
		return err
	case isRefusal(err):
		return consumer.Terminal(err)
	}
	for _, counted := range []error{kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InvalidTopicException, kerr.TopicAuthorizationFailed,
		kerr.PolicyViolation, kerr.InvalidTimestamp, kerr.UnsupportedForMessageFormat} {
		if errors.Is(err, counted) {
			return err
		}
	}
	return ledger.MarkUnavailable(err)
}

// check compares the client with the topic, until that was answered once.
func (p *Publisher) check(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.checked {
		return nil
	}
	configs, err := kadm.NewClient(p.topic.client).DescribeTopicConfigs(ctx, p.topic.topic)
	if err != nil {
		return p.named(err)
	}
	config, err := configs.On(p.topic.topic, nil)
	if err == nil {
		err = config.Err
	}
	switch {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		p.checked = true
		return nil
	case err != nil:
		return p.named(err)
	}
	for _, c := range config.Configs {
		if c.Key != "max.message.bytes" || c.Value == nil {
			continue
		}
		var most int
		if _, err := fmt.Sscan(*c.Value, &most); err == nil && p.most > most {
			// No message is at fault, so none may be given up for it: they wait until client and topic fit.
			return ledger.MarkUnavailable(fmt.Errorf("kafka: topic %q: kgo.ProducerBatchMaxBytes must be at most its max.message.bytes, %d, is %d: whole batches would be refused",
				p.topic.topic, most, p.most))
		}
	}
	p.checked = true
	return nil
}
