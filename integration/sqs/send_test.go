package sqs_test

import (
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

func text(value string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
}

func withAttributes(n int) func(*sqs.SendMessageInput) {
	return func(in *sqs.SendMessageInput) {
		in.MessageAttributes = map[string]types.MessageAttributeValue{}
		for i := range n {
			in.MessageAttributes["a"+strconv.Itoa(i)] = text("v")
		}
	}
}

var sendCases = []behaviour{{
	name: "RoundTrip",
	aws:  "API ReceiveMessage: body, its MD5 (checked by the SDK), the MessageId of the send, attributes, SentTimestamp, receive count",
	run: func(e *env) {
		url := e.queue("")
		before := time.Now()
		sent := e.send(url, "héllo <&> \U0001F600\t\r\n", func(in *sqs.SendMessageInput) {
			in.MessageAttributes = map[string]types.MessageAttributeValue{
				"text": text("a b"), "trace.id": {DataType: aws.String("String.uuid"), StringValue: aws.String("x")},
				"amount": {DataType: aws.String("Number"), StringValue: aws.String("12.5")},
				"raw":    {DataType: aws.String("Binary"), BinaryValue: []byte{0, 1, 255}},
			}
		})
		m := e.take(url, 1)[0]
		e.equal("id", *m.MessageId, *sent.MessageId)
		e.equal("body", *m.Body, "héllo <&> \U0001F600\t\r\n")
		e.equal("attribute digest", aws.ToString(m.MD5OfMessageAttributes), aws.ToString(sent.MD5OfMessageAttributes))
		e.equal("binary attribute", string(m.MessageAttributes["raw"].BinaryValue), "\x00\x01\xff")
		e.equal("labelled type", *m.MessageAttributes["trace.id"].DataType, "String.uuid")
		e.equal("receive count", m.Attributes["ApproximateReceiveCount"], "1")
		if age := e.moment(m, "SentTimestamp").Sub(before).Abs(); age > time.Minute {
			e.Errorf("SentTimestamp is %v away from the send", age)
		}
		e.must(e.delete(url, m))
	},
}, {
	name:    "CharacterSet",
	aws:     "API SendMessage: characters outside #x9 #xA #xD #x20-#xD7FF #xE000-#xFFFD #x10000-#x10FFFF are rejected with InvalidMessageContents",
	differs: map[server]string{elasticMQ: "refuses under InvalidAttributeValue"},
	run: func(e *env) {
		url := e.queue("")
		_, err := e.trySend(url, "a\x00b")
		e.refused(err, "InvalidMessageContents", "InvalidAttributeValue")
	},
}, {
	name:    "AttributeCount",
	aws:     "Guide, message quotas: a message can contain up to 10 metadata attributes",
	differs: map[server]string{elasticMQ: "refuses under InvalidAttributeValue"},
	run: func(e *env) {
		url := e.queue("")
		e.send(url, "x", withAttributes(10))
		_, err := e.trySend(url, "x", withAttributes(11))
		e.refused(err, "InvalidParameterValue", "InvalidAttributeValue")
	},
}, {
	name:    "MaximumSize",
	aws:     "API SendMessage: the maximum size is 1 MiB, 1,048,576 bytes",
	differs: map[server]string{elasticMQ: "refuses under InvalidAttributeValue"},
	run: func(e *env) {
		url := e.queue("")
		_, err := e.trySend(url, strings.Repeat("x", 1<<20))
		e.must(err)
		_, err = e.trySend(url, strings.Repeat("x", 1<<20+1))
		e.refused(err, "InvalidParameterValue", "InvalidAttributeValue")
	},
}, {
	name: "Delay",
	aws:  "API SendMessage: messages with a positive DelaySeconds become available after the delay is finished",
	run: func(e *env) {
		url := e.queue("")
		begin := time.Now()
		e.send(url, "x", func(in *sqs.SendMessageInput) { in.DelaySeconds = 2 })
		e.take(url, 1)
		if took := time.Since(begin); took < 1900*time.Millisecond {
			e.Fatalf("available after %v", took)
		}
	},
}, {
	name: "LongPoll",
	aws:  "API ReceiveMessage: waits for a message to arrive; if one is available the call returns sooner; else it returns no list when the time is over",
	run: func(e *env) {
		url := e.queue("")
		begin := time.Now()
		e.nothing(url, "empty queue")
		if took := time.Since(begin); took < 900*time.Millisecond {
			e.Fatalf("a poll of 1 s ended after %v", took)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := e.trySend(url, "x", func(in *sqs.SendMessageInput) { in.DelaySeconds = 1 })
			failed <- err
		}()
		begin = time.Now()
		got := e.receive(url, 20)
		e.must(<-failed)
		if took := time.Since(begin); len(got) != 1 || took > 10*time.Second {
			e.Fatalf("received %q after %v", bodies(got), took)
		}
	},
}, {
	name:    "ReceiveBounds",
	aws:     "API ReceiveMessage: MaxNumberOfMessages 1 to 10; Guide, queue quotas: long polling wait of at most 20 seconds",
	differs: map[server]string{elasticMQ: "refuses under InvalidAttributeValue"},
	run: func(e *env) {
		url := e.queue("")
		_, err := e.client.ReceiveMessage(e.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: 11})
		e.refused(err, "InvalidParameterValue", "InvalidAttributeValue")
		_, err = e.client.ReceiveMessage(e.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, WaitTimeSeconds: 21})
		e.refused(err, "InvalidParameterValue", "InvalidAttributeValue")
	},
}, {
	name: "GroupOnStandardQueue",
	aws:  "API SendMessage: in standard queues, using MessageGroupId enables fair queues; messages of one group can be processed in parallel",
	run: func(e *env) {
		url := e.queue("")
		e.send(url, "1", inGroup("tenant", ""))
		e.send(url, "2", inGroup("tenant", ""))
		for _, m := range e.take(url, 2) {
			e.equal("group", m.Attributes["MessageGroupId"], "tenant")
		}
	},
}, {
	name: "MissingQueue",
	aws:  "API common errors: QueueDoesNotExist (query code AWS.SimpleQueueService.NonExistentQueue)",
	run: func(e *env) {
		url := e.queue("") + "_missing"
		_, err := e.trySend(url, "x")
		e.code(err, "NonExistentQueue")
		_, err = e.client.ReceiveMessage(e.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url})
		e.code(err, "NonExistentQueue")
	},
}}

var batchCases = []behaviour{{
	name:    "BatchRules",
	aws:     "API SendMessageBatch errors: EmptyBatchRequest, TooManyEntriesInBatchRequest, BatchEntryIdsNotDistinct, InvalidBatchEntryId",
	differs: map[server]string{elasticMQ: "accepts an empty batch and ids with a space"},
	run: func(e *env) {
		url := e.queue("")
		batch := func(ids ...string) error {
			in := &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: []types.SendMessageBatchRequestEntry{}}
			for _, id := range ids {
				in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{Id: aws.String(id), MessageBody: aws.String("x")})
			}
			_, err := e.client.SendMessageBatch(e.Context(), in)
			return err
		}
		e.refused(batch(), "EmptyBatchRequest", "")
		e.code(batch(strings.Split("0 1 2 3 4 5 6 7 8 9 10", " ")...), "TooManyEntriesInBatchRequest")
		e.code(batch("a", "a"), "BatchEntryIdsNotDistinct")
		e.refused(batch("not valid"), "InvalidBatchEntryId", "")
	},
}, {
	name:    "BatchTooLong",
	aws:     "API SendMessageBatch: the sum of the individual lengths of all messages is at most 1,048,576 bytes, else BatchRequestTooLong",
	differs: map[server]string{elasticMQ: "refuses under InvalidAttributeValue"},
	run: func(e *env) {
		url := e.queue("")
		body := aws.String(strings.Repeat("x", 1<<19+1))
		_, err := e.client.SendMessageBatch(e.Context(), &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: []types.SendMessageBatchRequestEntry{
			{Id: aws.String("a"), MessageBody: body}, {Id: aws.String("b"), MessageBody: body},
		}})
		e.refused(err, "BatchRequestTooLong", "InvalidAttributeValue")
	},
}, {
	name: "BatchSendPartly",
	aws:  "API SendMessageBatch: the result of sending each message is reported individually, errors under HTTP status 200",
	run: func(e *env) {
		url := e.queue("")
		out, err := e.client.SendMessageBatch(e.Context(), &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: []types.SendMessageBatchRequestEntry{
			{Id: aws.String("good"), MessageBody: aws.String("x")},
			{Id: aws.String("bad"), MessageBody: aws.String("x"), DelaySeconds: 901},
		}})
		e.must(err)
		if len(out.Successful) != 1 || len(out.Failed) != 1 {
			e.Fatalf("%d sent, %d failed, want 1 and 1", len(out.Successful), len(out.Failed))
		}
		e.equal("sent", *out.Successful[0].Id, "good")
		e.equal("code", *out.Failed[0].Code, "InvalidParameterValue")
	},
}, {
	name: "BatchDeletePartly",
	aws:  "API DeleteMessageBatch: the result of each entry is reported individually, errors under HTTP status 200",
	run: func(e *env) {
		url := e.queue("")
		e.send(url, "x")
		m := e.take(url, 1)[0]
		out, err := e.client.DeleteMessageBatch(e.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: &url, Entries: []types.DeleteMessageBatchRequestEntry{
			{Id: aws.String("0"), ReceiptHandle: m.ReceiptHandle}, {Id: aws.String("1"), ReceiptHandle: aws.String("nonsense")},
		}})
		e.must(err)
		if len(out.Successful) != 1 || len(out.Failed) != 1 {
			e.Fatalf("%d deleted, %d failed, want 1 and 1", len(out.Successful), len(out.Failed))
		}
		e.equal("deleted", *out.Successful[0].Id, "0")
		e.equal("code", *out.Failed[0].Code, "ReceiptHandleIsInvalid")
	},
}}
