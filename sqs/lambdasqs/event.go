package lambdasqs

import (
	"fmt"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// RecordError says that a record of an event is none of an SQS message, or of another queue than the first. It cannot be named in a
// response, so nothing of its event is handled.
type RecordError struct {
	Index int    // in the event, from 0
	Of    int    // records
	Field string // as in the event's JSON
	Want  string
	Value string // at most 100 bytes of it
}

// Error names the record, the field, what it must be and what it is.
func (e *RecordError) Error() string {
	return fmt.Sprintf("lambdasqs: record %d of %d: %s must be %s, is %q", e.Index+1, e.Of, e.Field, e.Want, e.Value)
}

// UnfinishedError says which messages are not done, where Config.FailWhole is set.
type UnfinishedError struct {
	IDs []string // MessageIds
	Of  int      // records of the event
}

// Error names at most ten of the messages.
func (e *UnfinishedError) Error() string {
	shown := e.IDs[:min(len(e.IDs), 10)]
	return fmt.Sprintf("lambdasqs: %d of %d messages are to be delivered again: %s", len(e.IDs), e.Of, strings.Join(shown, ", "))
}

// check returns the ARN of the queue that all records come from.
func check(records []events.SQSMessage) (arn string, err error) {
	arn = records[0].EventSourceARN
	for i := range records {
		r := &records[i]
		bad := func(field, want, value string) error {
			return &RecordError{Index: i, Of: len(records), Field: field, Want: want, Value: value[:min(len(value), 100)]}
		}
		switch {
		case r.EventSource != "aws:sqs":
			return "", bad("eventSource", `"aws:sqs"`, r.EventSource)
		case strings.Count(r.EventSourceARN, ":") != 5 || strings.HasSuffix(r.EventSourceARN, ":"):
			return "", bad("eventSourceARN", "the ARN of a queue", r.EventSourceARN)
		case r.EventSourceARN != arn:
			return "", bad("eventSourceARN", fmt.Sprintf("%q as the first record's", arn), r.EventSourceARN)
		case r.MessageId == "" || len(r.MessageId) > maxMessageID:
			return "", bad("messageId", fmt.Sprintf("1 to %d bytes", maxMessageID), r.MessageId)
		}
	}
	return arn, nil
}

// maxMessageID is the longest MessageId, in bytes (SQS developer guide, "Amazon SQS queue and message identifiers").
const maxMessageID = 100

// isFIFO says whether the queue with this ARN keeps the order of message groups.
func isFIFO(arn string) bool { return strings.HasSuffix(arn, ".fifo") }

// rawOf makes of a record what ReceiveMessage would have returned. Nothing is copied.
func rawOf(r *events.SQSMessage) types.Message {
	raw := types.Message{
		MessageId: &r.MessageId, ReceiptHandle: &r.ReceiptHandle, Body: &r.Body, Attributes: r.Attributes,
		MessageAttributes: make(map[string]types.MessageAttributeValue, len(r.MessageAttributes)),
	}
	for name, v := range r.MessageAttributes {
		raw.MessageAttributes[name] = types.MessageAttributeValue{DataType: &v.DataType, StringValue: v.StringValue, BinaryValue: v.BinaryValue}
	}
	return raw
}

// respond names messages that are to be delivered again. The list is never null: Lambda takes such a response for a success too, but
// says nothing of it in its guide.
func respond(ids []string) events.SQSEventResponse {
	out := events.SQSEventResponse{BatchItemFailures: make([]events.SQSBatchItemFailure, len(ids))}
	for i, id := range ids {
		out.BatchItemFailures[i].ItemIdentifier = id
	}
	return out
}
