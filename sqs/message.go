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

// newMessage is what handlers see of a message. Nothing in it is shared with the original but immutable strings.
func newMessage(raw *types.Message, source string) *consumer.Message {
	return &consumer.Message{
		ID: aws.ToString(raw.MessageId), Source: source, Group: groupOf(raw), Body: bodyOf(raw), Headers: headersOf(raw),
		SentAt: sentAt(raw), Received: receives(raw),
	}
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
	for _, name := range slices.Sorted(maps.Keys(raw.MessageAttributes)) {
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
	raw := h.raw
	m := newMessage(&raw, w.queue.arn)
	h.item = engine.Item{
		Msg: m, Delivery: []byte(h.id), Lane: h.group, Window: w.queue.window, Deadline: w.queue.deadline(m.SentAt),
		Original: func(*engine.Item) engine.Content {
			return engine.Content{Body: bodyOf(&raw), Headers: headersOf(&raw)}
		},
		Alive: func(*engine.Item) bool { return w.alive(h) },
		Ref:   h,
	}
	h.item.Identity = engine.Identify(&w.set.Options, engine.Origin{Scope: w.queue.scope, Source: w.queue.arn}, m)
	return &h.item
}
