package sqs

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/internal/engine"
	"github.com/ackledger/ackledger/ledger"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// systemAttributes are asked for with every receive.
var systemAttributes = []types.MessageSystemAttributeName{
	types.MessageSystemAttributeNameSentTimestamp,
	types.MessageSystemAttributeNameApproximateReceiveCount,
	types.MessageSystemAttributeNameMessageGroupId,
	types.MessageSystemAttributeNameAWSTraceHeader,
}

// traceHeader is the system attribute that handlers find among the headers.
const traceHeader = types.MessageSystemAttributeNameAWSTraceHeader

// newMessage is what handlers see of a message, and its id as bytes, which lie before the body's. Nothing in it is shared
// with the original but immutable strings.
func newMessage(raw *types.Message, source string) (m consumer.Message, id []byte) {
	m = consumer.Message{
		ID: aws.ToString(raw.MessageId), Source: source, Group: groupOf(raw), Headers: ownHeaders(raw, source),
		SentAt: sentAt(raw), Received: receives(raw),
	}
	both := append(make([]byte, 0, len(m.ID)+len(aws.ToString(raw.Body))), m.ID...)
	id = both[:len(both):len(both)]
	if raw.Body != nil {
		m.Body = append(both, *raw.Body...)[len(id):]
	}
	return m, id
}

// bodyOf copies the body. One that is missing is nil, not empty.
func bodyOf(raw *types.Message) []byte {
	if raw.Body == nil {
		return nil
	}
	return []byte(*raw.Body)
}

// headersOf are the message attributes by name (SQS keeps no order), then the trace header. Values are copies.
func headersOf(raw *types.Message) []ledger.Header {
	var out []ledger.Header
	var names []string
	if len(raw.MessageAttributes) > 0 {
		names = slices.Sorted(maps.Keys(raw.MessageAttributes))
	}
	for _, name := range names {
		v := raw.MessageAttributes[name]
		h := ledger.Header{Name: name, Type: aws.ToString(v.DataType)}
		switch {
		case v.StringValue != nil:
			h.Value = []byte(*v.StringValue)
		default:
			h.Value = bytes.Clone(v.BinaryValue)
		}
		out = append(out, h)
	}
	if trace, ok := raw.Attributes[string(traceHeader)]; ok {
		out = append(out, ledger.Header{Name: string(traceHeader), Value: []byte(trace)})
	}
	return out
}

func groupOf(raw *types.Message) string {
	return raw.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)]
}

// sentAt is when SQS took the message in; zero if it does not say.
func sentAt(raw *types.Message) time.Time {
	ms, err := strconv.ParseInt(raw.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64)
	if err != nil || ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func receives(raw *types.Message) int {
	n, err := strconv.Atoi(raw.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
	if err != nil {
		return 0
	}
	return n
}

// prepare makes the item that the engine gets of a message.
func (w *Worker) prepare(h *hold) *engine.Item {
	var id []byte
	h.msg, id = newMessage(&h.raw, w.queue.arn)
	h.item = engine.Item{
		Msg: &h.msg, Delivery: id, Window: w.queue.window, Deadline: w.queue.deadline(h.msg.SentAt),
		Original: original, Alive: w.isAlive, Ref: h,
	}
	h.item.OrderingKey, h.item.Size = h.Group, heldSize(&h.raw)
	if w.queue.lanes != nil {
		h.item.Lane = engine.Lane{Of: w.queue.lanes, Key: engine.KeyHash([]byte(h.Group)), Place: ledger.PlaceLast}
	}
	from := engine.Origin{Key: ledger.Key{Scope: w.queue.scope, ID: id}, Source: w.queue.arn, Tenant: h.msg.Group, Records: engine.NoRecords{}}
	h.item.Identity = engine.Identify(&w.set.Options, from, &h.msg)
	return &h.item
}

// revive is engine.Config.Revive.
func (w *Worker) revive(p *ledger.Parked) *consumer.Message {
	return &consumer.Message{ID: string(p.Key.ID), Source: p.Source, Group: p.Group, Body: p.Body, Headers: p.Headers, SentAt: p.SentAt}
}

// What is made for a message, and for each of its attributes, beside their bytes.
const (
	messageOverhead   = 3000
	attributeOverhead = 450
)

// heldSize is how many bytes of memory a message takes in hand: what the client made of the answer, the handler's copy, and what
// is made for both.
func heldSize(raw *types.Message) int64 {
	n := messageOverhead + 2*len(aws.ToString(raw.Body)) + 2*len(aws.ToString(raw.ReceiptHandle))
	for name, v := range raw.MessageAttributes {
		n += attributeOverhead + len(name) + 2*(len(aws.ToString(v.StringValue))+len(v.BinaryValue))
	}
	for name, v := range raw.Attributes {
		n += len(name) + 2*len(v)
	}
	return int64(n)
}

// original is engine.Item.Original.
func original(it *engine.Item) engine.Content {
	raw := &it.Ref.(*hold).raw
	return engine.Content{Body: bodyOf(raw), Headers: ownHeaders(raw, it.Msg.Source)}
}
