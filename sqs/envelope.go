package sqs

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/ledger"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// EnvelopeName is the attribute of a dead letter that says what failed, where and how, as JSON, and that carries what the
// copy itself has no room for: the message's own attributes beyond the eighth (SQS allows ten, developer guide, "Amazon SQS
// message quotas"; the stamp and the envelope are two), headers and keys of Kafka, and bodies that SQS does not take.
// [ParseDeadLetter] reads it.
const EnvelopeName = "ackledger-dead-letter"

const (
	envelopeVersion = 1
	maxAttributes   = 10 // of a message
	ownAttributes   = maxAttributes - 2
	maxName         = 256 // of an attribute, and of its type
)

// envelope is what EnvelopeName holds. Fields have the names of the headers on Kafka, without their prefix.
type envelope struct {
	Version    int                `json:"v"`
	Source     string             `json:"original-source"`
	ID         string             `json:"original-id"` // for people; exact in the stamp
	Delivery   []byte             `json:"original-delivery,omitempty"`
	Topic      string             `json:"original-topic,omitempty"`
	Partition  int32              `json:"original-partition,omitempty"`
	Offset     int64              `json:"original-offset,omitempty"`
	SentAt     int64              `json:"original-timestamp,omitempty"` // milliseconds since 1970
	Group      string             `json:"original-group,omitempty"`
	Key        []byte             `json:"original-key"` // null is not empty
	Body       bodyForm           `json:"original-body,omitempty"`
	Attributes []packed           `json:"original-attributes,omitempty"`
	Consumer   string             `json:"consumer"`
	Kind       ledger.FailureKind `json:"kind"`
	Attempts   int                `json:"attempts"`
	FailedAt   int64              `json:"failed-at"` // milliseconds since 1970
	Class      ledger.FailureKind `json:"exception-class,omitempty"`
	Error      string             `json:"exception-message,omitempty"`
}

// packed is one attribute or header that the copy does not have as an attribute. A null value is not an empty one.
type packed struct {
	Name  []byte `json:"name"`
	Type  string `json:"type,omitempty"`
	Value []byte `json:"value"`
}

// bodyForm says what the copy's body is. SQS takes no empty one, and only characters that XML allows.
type bodyForm string

const (
	bodyPlain  bodyForm = ""
	bodyBase64 bodyForm = "base64"
	bodyNil    bodyForm = "nil"   // a tombstone: the copy's body stands for nothing
	bodyEmpty  bodyForm = "empty" // the same
)

// placeholder is the body of a copy of a message that has none.
const placeholder = "-"

func formOf(body []byte) (bodyForm, string) {
	switch {
	case body == nil:
		return bodyNil, placeholder
	case len(body) == 0:
		return bodyEmpty, placeholder
	case !sendable(body):
		return bodyBase64, base64.StdEncoding.EncodeToString(body)
	}
	return bodyPlain, string(body)
}

func (f bodyForm) restore(body []byte) ([]byte, error) {
	switch f {
	case bodyNil:
		return nil, nil
	case bodyEmpty:
		return []byte{}, nil
	case bodyBase64:
		return base64.StdEncoding.DecodeString(string(body))
	case bodyPlain:
		return body, nil
	}
	return nil, fmt.Errorf("the form of its body must be base64, nil or empty, is %.20q", string(f))
}

// sendable says whether SQS takes the text: UTF-8 of characters that XML 1.0 allows (API reference, SendMessage).
func sendable[T string | []byte](text T) bool {
	s := string(text)
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !allowed(r) })
}

func allowed(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || r >= 0x20 && r <= 0xD7FF || r >= 0xE000 && r <= 0xFFFD || r >= 0x10000
}

// shown makes any text one that SQS takes.
func shown(text string) string {
	return strings.Map(func(r rune) rune {
		if allowed(r) {
			return r
		}
		return utf8.RuneError
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// attributeOf makes a message attribute of a header, if SQS takes it as one (developer guide, "Amazon SQS message
// attributes"). What came from a queue as an attribute always is one; a header of Kafka has no data type.
func attributeOf(h *ledger.Header) (types.MessageAttributeValue, bool) {
	value := types.MessageAttributeValue{DataType: aws.String(h.Type)}
	if !attributeName(h.Name) || len(h.Value) == 0 || len(h.Type) > maxName {
		return value, false
	}
	switch base, _, _ := strings.Cut(h.Type, "."); base {
	case "String", "Number":
		value.StringValue = aws.String(string(h.Value))
		return value, sendable(h.Value)
	case "Binary":
		value.BinaryValue = h.Value
		return value, true
	}
	return value, false
}

func attributeName(name string) bool {
	if name == "" || len(name) > maxName || name[0] == '.' || name[len(name)-1] == '.' || strings.Contains(name, "..") {
		return false
	}
	if lower := strings.ToLower(name); strings.HasPrefix(lower, "aws.") || strings.HasPrefix(lower, "amazon.") {
		return false
	}
	return strings.Trim(name, nameChars) == ""
}

// nameChars are the characters of attributes' names.
const nameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."

// isTrace says whether the header is the system attribute, which is none of the ten.
func isTrace(h *ledger.Header) bool { return h.Name == string(traceHeader) && h.Type == "" }

// detail says how much a copy tells of its failure.
type detail uint8

const (
	whole detail = iota
	brief        // without the error's text
	bare         // the stamp alone
)

// seal makes the copy of a dead letter, without its queue. False: it cannot be made with so little detail.
func seal(d *consumer.DeadLetter, how detail, fifo bool) (*sqs.SendMessageInput, bool, error) {
	form, body := formOf(d.Message.Body)
	e := &envelope{
		Version: envelopeVersion, Source: d.Message.Source, ID: shown(d.Message.ID), Delivery: d.Delivery, Topic: d.Message.Topic,
		Partition: d.Message.Partition, Offset: d.Message.Offset, SentAt: milliseconds(d.Message.SentAt), Group: d.Message.Group,
		Key: d.Message.Key, Body: form, Consumer: shown(d.Consumer), Kind: d.Kind, Attempts: d.Message.Attempt,
		FailedAt: milliseconds(d.FailedAt), Class: d.Class,
	}
	if how == whole {
		e.Error = shown(d.Error)
	}
	in := &sqs.SendMessageInput{MessageBody: &body, MessageAttributes: map[string]types.MessageAttributeValue{}}
	e.Attributes = e.place(in, d.Message.Headers)
	if d.Stamp != nil {
		in.MessageAttributes[consumer.StampName] = text(d.Stamp.String())
	}
	if how == bare {
		enough := d.Stamp != nil && form == bodyPlain && len(e.Attributes) == 0 && e.Key == nil && (e.Group != "") == fifo
		return in, enough, nil
	}
	sealed, err := json.Marshal(e)
	if err != nil {
		return nil, false, fmt.Errorf("sqs: a dead letter's envelope: %w", err)
	}
	in.MessageAttributes[EnvelopeName] = text(string(sealed))
	return in, true, nil
}

// place sets the headers that are attributes as far as there is room, and returns the others in their order.
func (e *envelope) place(in *sqs.SendMessageInput, headers []ledger.Header) (rest []packed) {
	for i := range headers {
		h := &headers[i]
		if h.Name == consumer.StampName || h.Name == EnvelopeName {
			continue // replaced by ours
		}
		if isTrace(h) && sendable(h.Value) && len(h.Value) > 0 && in.MessageSystemAttributes == nil && e.Topic == "" {
			in.MessageSystemAttributes = map[string]types.MessageSystemAttributeValue{
				string(traceHeader): {DataType: aws.String("String"), StringValue: aws.String(string(h.Value))},
			}
			continue
		}
		value, ok := attributeOf(h)
		if _, taken := in.MessageAttributes[h.Name]; ok && !taken && len(in.MessageAttributes) < ownAttributes {
			in.MessageAttributes[h.Name] = value
			continue
		}
		rest = append(rest, packed{Name: []byte(h.Name), Type: h.Type, Value: h.Value})
	}
	return rest
}

func text(s string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &s}
}

// milliseconds since 1970; 0 for no time.
func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMilliseconds(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// sizeOf is what counts against the limit of a message: the body, and each attribute's name, type and value.
func sizeOf(in *sqs.SendMessageInput) int {
	n := len(aws.ToString(in.MessageBody))
	for name, v := range in.MessageAttributes {
		n += len(name) + len(aws.ToString(v.DataType)) + len(aws.ToString(v.StringValue)) + len(v.BinaryValue)
	}
	return n
}

// ParseDeadLetter reads a message of a dead-letter queue: one that [DeadLetterQueue] sent, or one that SQS moved there by
// the source's redrive policy. It must have been received with all message attributes and all system attributes
// (MessageAttributeNames and MessageSystemAttributeNames: "All").
//
// Of ours, everything is as it was delivered from the source. Of one that SQS moved, Message.Source is what SQS says
// (DeadLetterQueueSourceArn), Message.ID and Delivery are the MessageId, which SQS keeps when it moves a message; a
// console redrive or a move task to this queue gave it a new one, by which nobody recognises it, unless it has a stamp.
//
// What SQS says about the source outranks what the letter says: where DeadLetterQueueSourceArn names another queue than the
// envelope, the envelope is an attribute like any other.
//
// DeadLetter.Stamp is set only if it is of this source and this body; what is forged, or copied from another message,
// leaves it nil. An envelope that cannot be read is an error.
func ParseDeadLetter(m *types.Message) (*consumer.DeadLetter, error) {
	d, _, err := parseDeadLetter(m)
	return d, err
}

// parseDeadLetter says as well whether the letter is one that [DeadLetterQueue] sent.
func parseDeadLetter(m *types.Message) (d *consumer.DeadLetter, ours bool, err error) {
	d = &consumer.DeadLetter{Message: consumer.Message{
		ID: aws.ToString(m.MessageId), Group: groupOf(m), Body: bodyOf(m), Headers: headersOf(m),
		SentAt: sentAt(m), Received: receives(m), Source: m.Attributes[deadSource],
	}}
	d.Delivery = []byte(d.Message.ID)
	if sealed, ok := m.MessageAttributes[EnvelopeName]; ok {
		if ours, err = unseal(d, aws.ToString(sealed.StringValue)); err != nil {
			return nil, false, fmt.Errorf("sqs: message %s: attribute %s: %w", aws.ToString(m.MessageId), EnvelopeName, err)
		}
	}
	stamp := stampOf(m, d)
	if stamp == nil {
		return d, ours, nil
	}
	if d.Stamp = stamp; !ours && d.Message.Source == "" {
		d.Message.Source, d.Delivery = stamp.Source, nil // a copy that has no more than its stamp
		d.Message.Headers = slices.DeleteFunc(d.Message.Headers, func(h ledger.Header) bool { return h.Name == consumer.StampName })
	}
	d.Message.ID = stamp.ID
	return d, ours, nil
}

// deadSource is the system attribute that SQS sets when it moves a message to a dead-letter queue.
const deadSource = string(types.MessageSystemAttributeNameDeadLetterQueueSourceArn)

// stampOf returns the stamp of a copy, if it is of this source and body.
func stampOf(m *types.Message, d *consumer.DeadLetter) *consumer.Stamp {
	value, ok := m.MessageAttributes[consumer.StampName]
	if !ok {
		return nil
	}
	s, err := consumer.ParseStamp([]byte(aws.ToString(value.StringValue)))
	if err != nil || len(s.ID) > ledger.MaxID {
		return nil
	}
	source := cmp.Or(d.Message.Source, s.Source)
	if !s.Counts(source, ledger.BodyFingerprint(d.Message.Body)) {
		return nil
	}
	return s
}

// unseal turns the copy back into what was delivered from the source. False: it is not from where SQS says it is, and stays.
func unseal(d *consumer.DeadLetter, sealed string) (bool, error) {
	var e envelope
	err := json.Unmarshal([]byte(sealed), &e)
	if moved := d.Message.Source; moved != "" && e.Source != moved {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if e.Version != envelopeVersion || e.Source == "" {
		return false, fmt.Errorf("its version must be %d, is %d, and it must name a source, names %.100q", envelopeVersion, e.Version, e.Source)
	}
	m := &d.Message
	if m.Body, err = e.Body.restore(m.Body); err != nil {
		return false, err
	}
	m.Headers = e.headers(m.Headers)
	m.ID, m.Source, m.Group, m.Key, m.SentAt = e.ID, e.Source, e.Group, e.Key, fromMilliseconds(e.SentAt)
	m.Topic, m.Partition, m.Offset, m.Attempt, m.Received = e.Topic, e.Partition, e.Offset, e.Attempts, 0
	d.Delivery, d.Kind, d.Class, d.Error = e.Delivery, e.Kind, e.Class, e.Error
	d.Consumer, d.FailedAt = e.Consumer, fromMilliseconds(e.FailedAt)
	return true, nil
}

// headers puts the message's own headers together again: attributes by name as a worker shows them, and the trace header
// at their end; headers of Kafka in the order in which they were packed.
func (e *envelope) headers(copied []ledger.Header) []ledger.Header {
	var out, trace []ledger.Header
	for _, h := range copied {
		switch {
		case isTrace(&h):
			trace = append(trace, h)
		case h.Name != consumer.StampName && h.Name != EnvelopeName:
			out = append(out, h)
		}
	}
	for _, p := range e.Attributes {
		h := ledger.Header{Name: string(p.Name), Type: p.Type, Value: p.Value}
		if isTrace(&h) && e.Topic == "" {
			trace = append(trace, h)
			continue
		}
		out = append(out, h)
	}
	if e.Topic == "" {
		slices.SortStableFunc(out, func(a, b ledger.Header) int { return strings.Compare(a.Name, b.Name) })
	}
	return append(out, trace...)
}

// ownHeaders are the headers of a message of a source. Of a dead letter that somebody moved back here they are the
// message's own, with its stamp: those that had no room beside the envelope come out of it.
func ownHeaders(raw *types.Message, source string) []ledger.Header {
	headers := headersOf(raw)
	sealed, ok := raw.MessageAttributes[EnvelopeName]
	if !ok {
		return headers
	}
	var e envelope
	err := json.Unmarshal([]byte(aws.ToString(sealed.StringValue)), &e)
	if err != nil || e.Version != envelopeVersion || e.Source != source {
		return headers // it was dead-lettered somewhere else
	}
	own := e.headers(headers)
	if i := slices.IndexFunc(headers, func(h ledger.Header) bool { return h.Name == consumer.StampName }); i >= 0 {
		own = append(own, headers[i])
	}
	return own
}

// ErrNoRoom says that a message has no room for a stamp: ten attributes of its own, or not the bytes.
var ErrNoRoom = errors.New("sqs: the message has no room for a stamp")

// StampInput gives a message that a producer sends an identity of its own choice: sent twice with one id, or redriven by a
// person, it is handled once. source is the ARN of the queue it is sent to, id is 1 to 1,024 bytes and unique in that
// queue. It returns an error for which errors.Is([ErrNoRoom]) holds if the message has ten attributes already.
//
// What carries no stamp is known by its MessageId alone, and is not recognised once a person has moved it: a console
// redrive, a move task and any other send give it a new one.
//
// The first of keys signs the stamp, for workers with Options.Stamps.Keys; without any it is not signed.
func StampInput(in *sqs.SendMessageInput, source, id string, keys ...consumer.StampKey) error {
	switch {
	case in == nil || in.MessageBody == nil:
		return errors.New("sqs: StampInput: the message must have a body, has none")
	case source == "":
		return errors.New("sqs: StampInput: source must be the ARN of the queue, is empty")
	case id == "" || len(id) > ledger.MaxID:
		return fmt.Errorf("sqs: StampInput: id must be 1 to %d bytes, is %d bytes", ledger.MaxID, len(id))
	}
	if err := consumer.CheckStampKeys(keys); err != nil {
		return fmt.Errorf("sqs: StampInput: the keys: %w", err)
	}
	return setStamp(in, consumer.NewStamp(source, id, []byte(*in.MessageBody)).Sign(keys...))
}

// setStamp replaces the stamp of a message.
func setStamp(in *sqs.SendMessageInput, s consumer.Stamp) error {
	_, has := in.MessageAttributes[consumer.StampName]
	if n := len(in.MessageAttributes); !has && n >= maxAttributes {
		return fmt.Errorf("%w: at most %d attributes, it has %d of its own", ErrNoRoom, maxAttributes, n)
	}
	if in.MessageAttributes == nil {
		in.MessageAttributes = map[string]types.MessageAttributeValue{}
	}
	in.MessageAttributes[consumer.StampName] = text(s.String())
	return nil
}
