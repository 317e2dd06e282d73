package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeadLetterTopic forwards messages that failed for good to a Kafka topic: Options.DeadLetter of a worker of any broker.
// Build it with [NewDeadLetterTopic].
//
// The copy has the message's key, value and headers to the byte: a nil value stays nil, headers keep their order and
// repeat as they did. After them come the stamp (consumer.StampName) and the headers of package consumer that say what
// failed, where and how (consumer.HeaderKind and its neighbours); a header of the message's own that has one of these
// names is replaced. [ParseDeadLetter] makes the message of it again.
//
// The copy's timestamp is the time of its publishing, so that the topic's retention counts from then, and a producer's
// clock that runs ahead is no reason to refuse it; the message's own is consumer.HeaderOriginalTimestamp. Records of one
// key, and messages of one FIFO group, go to one partition, as the client's partitioner has it.
//
// A publish whose answer was lost may be two records, with one stamp. After a crash the message is claimed anew: if it
// fails again, that is another failure, whose dead letter carries a higher token.
//
// A record that is too large with the error's text goes without; one that is too large even so is in the ledger's archive
// only, marked as not sent.
type DeadLetterTopic struct {
	client *kgo.Client
	topic  string
}

var (
	_ consumer.DeadLetterer = (*DeadLetterTopic)(nil)
	_ consumer.Retainer     = (*DeadLetterTopic)(nil)
)

// NewDeadLetterTopic returns a target for Options.DeadLetter. The client is the caller's, who closes it after the worker
// has ended; it may be shared, but not be that of a worker. It must wait for all in-sync replicas (franz-go's default),
// and must not be transactional or flush by hand. Nothing is asked of the cluster before the worker runs.
func NewDeadLetterTopic(client *kgo.Client, topic string) (*DeadLetterTopic, error) {
	if client == nil {
		return nil, errors.New("kafka: NewDeadLetterTopic: the client must not be nil")
	}
	if !isTopicName(topic) {
		return nil, fmt.Errorf("kafka: NewDeadLetterTopic: the topic must be 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', is %.300q", topic)
	}
	if acks, ok := client.OptValue(kgo.RequiredAcks).(kgo.Acks); !ok || acks != kgo.AllISRAcks() {
		return nil, refused("RequiredAcks", "a dead letter is sent once all in-sync replicas have it")
	}
	// Compared as they are: a later kgo may give values of another type, and what is not known is refused.
	if client.OptValue(kgo.TransactionalID) != "" {
		return nil, refused("TransactionalID", "a dead letter is published by itself")
	}
	if client.OptValue(kgo.ManualFlushing) != false {
		return nil, refused("ManualFlushing", "a dead letter is waited for")
	}
	return &DeadLetterTopic{client: client, topic: topic}, nil
}

// String names the topic.
func (t *DeadLetterTopic) String() string { return t.topic }

// Source returns the cluster's id and the topic as `cluster/topic`.
func (t *DeadLetterTopic) Source(ctx context.Context) (string, error) {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &t.topic
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, t.client)
	if err == nil && len(resp.Topics) == 1 {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		return "", fmt.Errorf("kafka: dead-letter topic %q: %w", t.topic, err)
	}
	if resp.ClusterID == nil {
		return "", nil
	}
	return SourceName(*resp.ClusterID, t.topic), nil
}

// Retention returns the topic's retention.ms + segment.ms. It needs DescribeConfigs of the topic: what may not be read, or
// is compacted or kept for ever, is consumer.ErrUnbounded.
func (t *DeadLetterTopic) Retention(ctx context.Context) (time.Duration, error) {
	found, err := describe(ctx, kadm.NewClient(t.client), t.topic)
	if err != nil {
		return 0, fmt.Errorf("kafka: dead-letter topic %q: %w", t.topic, err)
	}
	l := found[t.topic]
	if l.err != nil {
		return 0, fmt.Errorf("kafka: dead-letter topic %q: %w", t.topic, l.err)
	}
	if l.window == 0 {
		return 0, fmt.Errorf("kafka: dead-letter topic %q: %s: it %w", t.topic, l.unknown, consumer.ErrUnbounded)
	}
	return l.window, nil
}

// SourceName is the name of a topic as a source: Message.Source, and what a stamp for it names.
func SourceName(cluster, topic string) string { return cluster + "/" + topic }

// Publish produces one dead letter and waits for the cluster's answer. What the topic refuses for the message's own sake
// is Terminal.
func (t *DeadLetterTopic) Publish(ctx context.Context, d *consumer.DeadLetter) error {
	err := t.produce(ctx, d)
	if isRefusal(err) && d.Error != "" {
		brief := *d
		brief.Error = ""
		err = t.produce(ctx, &brief)
	}
	switch {
	case err == nil:
		return nil
	case isRefusal(err):
		return consumer.Terminal(fmt.Errorf("kafka: dead-letter topic %q does not take the message: %w", t.topic, err))
	}
	return fmt.Errorf("kafka: dead-letter topic %q: %w", t.topic, err)
}

func (t *DeadLetterTopic) produce(ctx context.Context, d *consumer.DeadLetter) error {
	return t.client.ProduceSync(ctx, newDeadRecord(t.topic, d)).FirstErr()
}

// isRefusal says whether the cluster, or the client, refuses a record for its own sake.
func isRefusal(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge) || errors.Is(err, kerr.InvalidRecord)
}

// newDeadRecord makes the copy of a dead letter.
func newDeadRecord(topic string, d *consumer.DeadLetter) *kgo.Record {
	m := &d.Message
	r := &kgo.Record{Topic: topic, Key: m.Key, Value: m.Body}
	if m.Group != "" && m.Key == nil {
		r.Key = []byte(m.Group) // the order of a FIFO group survives
	}
	typed, kinds := false, []string{}
	for _, h := range m.Headers {
		if consumer.IsDeadLetterHeader(h.Name) {
			continue
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		typed, kinds = typed || h.Type != "", append(kinds, url.QueryEscape(h.Type))
	}
	add := func(name, value string) {
		if value != "" {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
	}
	if d.Stamp != nil {
		add(consumer.StampName, d.Stamp.String())
	}
	add(consumer.HeaderOriginalSource, m.Source)
	add(consumer.HeaderOriginalID, m.ID)
	add(consumer.HeaderOriginalDelivery, string(d.Delivery))
	if m.Topic != "" {
		add(consumer.HeaderOriginalTopic, m.Topic)
		add(consumer.HeaderOriginalPartition, strconv.Itoa(int(m.Partition)))
		add(consumer.HeaderOriginalOffset, strconv.FormatInt(m.Offset, 10))
	}
	add(consumer.HeaderOriginalTimestamp, milliText(m.SentAt))
	add(consumer.HeaderOriginalGroup, m.Group)
	if typed {
		add(consumer.HeaderOriginalTypes, strings.Join(kinds, ","))
	}
	add(consumer.HeaderConsumer, d.Consumer)
	add(consumer.HeaderKind, string(d.Kind))
	add(consumer.HeaderAttempts, strconv.Itoa(m.Attempt))
	add(consumer.HeaderFailedAt, milliText(d.FailedAt))
	add(consumer.HeaderExceptionClass, string(d.Class))
	add(consumer.HeaderExceptionMessage, d.Error)
	return r
}

func milliText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

// ErrNotDeadLetter says that a record carries neither a stamp of its own body nor the headers of a dead letter of ours:
// where it came from is not known.
var ErrNotDeadLetter = errors.New("kafka: the record is no dead letter of ackledger's")

// ParseDeadLetter reads a record of a dead-letter topic that [DeadLetterTopic] produced, and makes of it what was
// delivered from the source. The bytes are the record's own.
//
// DeadLetter.Stamp is set only if it is of this source and this body; what is forged, or copied from another message,
// leaves it nil. A record without the headers but with a stamp of its own body is read as one of the stamp's source. Any
// other is [ErrNotDeadLetter]; headers of ours that cannot be read are an error too.
func ParseDeadLetter(r *kgo.Record) (*consumer.DeadLetter, error) {
	d := &consumer.DeadLetter{}
	if err := parseDeadLetter(r, d); err != nil {
		return nil, err
	}
	return d, nil
}

// parseDeadLetter is ParseDeadLetter into an empty d, of which nothing is to be used after an error.
func parseDeadLetter(r *kgo.Record, d *consumer.DeadLetter) error {
	p := parser{headers: r.Headers}
	d.Message.Key, d.Message.Body = r.Key, r.Value
	m := &d.Message
	for i := range r.Headers {
		if h := &r.Headers[i]; !consumer.IsDeadLetterHeader(h.Key) {
			m.Headers = append(m.Headers, ledger.Header{Name: h.Key, Value: h.Value})
		}
	}
	var stamp *consumer.Stamp
	if v, ok := p.value(consumer.StampName); ok {
		var err error
		if stamp, err = consumer.ParseStamp(v); err != nil || len(stamp.ID) > ledger.MaxID {
			stamp = nil
		}
	}
	source, _ := p.value(consumer.HeaderOriginalSource)
	switch {
	case stamp != nil && (len(source) == 0 || string(source) == stamp.Source):
		m.Source = stamp.Source
	default:
		m.Source = string(source)
	}
	if stamp != nil && stamp.Counts(m.Source, ledger.BodyFingerprint(m.Body)) {
		d.Stamp = stamp
	}
	if d.Stamp == nil && len(source) == 0 {
		return fmt.Errorf("%w: %s-%d-%d", ErrNotDeadLetter, r.Topic, r.Partition, r.Offset)
	}
	p.fill(d)
	if p.err != nil {
		return fmt.Errorf("kafka: record %s-%d-%d: %w", r.Topic, r.Partition, r.Offset, p.err)
	}
	return nil
}

// parser reads the headers of a dead letter; the first that cannot be read is its error. They are few: it looks through
// them for each name.
type parser struct {
	headers []kgo.RecordHeader
	err     error
}

// value is that of the last header of a name.
func (p *parser) value(name string) ([]byte, bool) {
	for i := len(p.headers) - 1; i >= 0; i-- {
		if p.headers[i].Key == name {
			return p.headers[i].Value, true
		}
	}
	return nil, false
}

func (p *parser) text(name string) string {
	v, _ := p.value(name)
	return string(v)
}

func (p *parser) number(name string, bits int) int64 {
	v, ok := p.value(name)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(string(v), 10, bits)
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("header %s: must be a decimal number of %d bits, is %.40q", name, bits, v)
	}
	return n
}

func (p *parser) time(name string) time.Time {
	if _, ok := p.value(name); !ok {
		return time.Time{}
	}
	return time.UnixMilli(p.number(name, 64))
}

func (p *parser) fill(d *consumer.DeadLetter) {
	m := &d.Message
	if d.Stamp != nil {
		m.ID = d.Stamp.ID
	} else {
		m.ID = p.text(consumer.HeaderOriginalID)
	}
	m.Topic, m.Group = p.text(consumer.HeaderOriginalTopic), p.text(consumer.HeaderOriginalGroup)
	if m.Group != "" {
		m.Key = nil // it is the group
	}
	m.Partition, m.Offset = int32(p.number(consumer.HeaderOriginalPartition, 32)), p.number(consumer.HeaderOriginalOffset, 64)
	m.SentAt = p.time(consumer.HeaderOriginalTimestamp)
	m.Attempt = int(p.number(consumer.HeaderAttempts, 32))
	if v, ok := p.value(consumer.HeaderOriginalDelivery); ok {
		d.Delivery = v
	}
	d.Consumer, d.Kind = p.text(consumer.HeaderConsumer), ledger.FailureKind(p.text(consumer.HeaderKind))
	d.Class, d.Error = ledger.FailureKind(p.text(consumer.HeaderExceptionClass)), p.text(consumer.HeaderExceptionMessage)
	d.FailedAt = p.time(consumer.HeaderFailedAt)
	if v, ok := p.value(consumer.HeaderOriginalTypes); ok {
		p.types(m.Headers, string(v))
	}
}

// types gives the attributes of an SQS message their data types back.
func (p *parser) types(headers []ledger.Header, list string) {
	kinds := strings.Split(list, ",")
	if len(kinds) != len(headers) {
		p.err = cmp.Or(p.err, fmt.Errorf("header %s: must have %d types, one for each attribute, has %d",
			consumer.HeaderOriginalTypes, len(headers), len(kinds)))
		return
	}
	for i, k := range kinds {
		kind, err := url.QueryUnescape(k)
		if err != nil {
			p.err = cmp.Or(p.err, fmt.Errorf("header %s: %w", consumer.HeaderOriginalTypes, err))
		}
		headers[i].Type = kind
	}
}

// SourceRecord makes the record that sends a dead letter back to its source topic: key, value, headers and timestamp as
// they were, and after them its stamp, by which the copy meets its own row. Sent twice, the second copy meets the first
// one's row. Without a stamp (see DeadLetter.Stamp) the copy is a message of its own, with whatever its headers say.
//
// It fails if the message did not come from Kafka.
func SourceRecord(d *consumer.DeadLetter) (*kgo.Record, error) {
	topic, err := sourceTopic(d)
	if err != nil {
		return nil, err
	}
	m := &d.Message
	r := &kgo.Record{Topic: topic, Key: m.Key, Value: m.Body, Timestamp: m.SentAt, Headers: make([]kgo.RecordHeader, 0, len(m.Headers)+1)}
	for i := range m.Headers {
		if h := &m.Headers[i]; h.Name != consumer.StampName || d.Stamp == nil {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
	}
	if d.Stamp != nil {
		r.Headers = append(r.Headers, stampHeader(d.Stamp))
	}
	return r, nil
}

// sourceTopic is the topic that a message came from.
func sourceTopic(d *consumer.DeadLetter) (string, error) {
	m := &d.Message
	topic := m.Topic
	if _, after, ok := strings.Cut(m.Source, "/"); topic == "" && ok {
		topic = after // one that was read by its stamp alone
	}
	if !isTopicName(topic) {
		return "", fmt.Errorf("kafka: message %q: its source must be cluster/topic, is %.300q", m.ID, m.Source)
	}
	return topic, nil
}

// StampRecord gives a record that a producer sends an identity of its own choice: produced twice with one id, or again by
// a person, it is handled once. source is [SourceName] of the cluster and the topic it is produced to, id is 1 to 1,024
// bytes and unique in that topic. Headers that a message brings along are no stamp for another topic, nor for another
// value. What carries no stamp is known by its place in the log alone, and is another message wherever it is produced
// again.
//
// The first of keys signs the stamp, for workers with Options.Stamps.Keys; without any it is not signed.
func StampRecord(r *kgo.Record, source, id string, keys ...consumer.StampKey) error {
	switch {
	case r == nil:
		return errors.New("kafka: StampRecord: the record must not be nil")
	case source == "":
		return errors.New("kafka: StampRecord: source must be cluster/topic, is empty")
	case id == "" || len(id) > ledger.MaxID:
		return fmt.Errorf("kafka: StampRecord: id must be 1 to %d bytes, is %d bytes", ledger.MaxID, len(id))
	}
	if err := consumer.CheckStampKeys(keys); err != nil {
		return fmt.Errorf("kafka: StampRecord: the keys: %w", err)
	}
	s := consumer.NewStamp(source, id, r.Value).Sign(keys...)
	kept := slices.DeleteFunc(slices.Clone(r.Headers), func(h kgo.RecordHeader) bool { return h.Key == consumer.StampName })
	r.Headers = append(kept, stampHeader(&s))
	return nil
}

func stampHeader(s *consumer.Stamp) kgo.RecordHeader {
	return kgo.RecordHeader{Key: consumer.StampName, Value: []byte(s.String())}
}
