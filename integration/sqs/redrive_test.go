package sqs_test

import (
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// kill receives and gives back one message until it is in the dead-letter queue,
// and returns it from there.
func (e *env) kill(url, dead string, receives int) types.Message {
	e.Helper()
	for range receives {
		e.must(e.change(url, e.take(url, 1)[0], 0))
	}
	e.nothing(url, "out of receives")
	return e.take(dead, 1)[0]
}

// moved runs a move task to its end.
func (e *env) moved(deadARN string) {
	e.Helper()
	_, err := e.client.StartMessageMoveTask(e.Context(), &sqs.StartMessageMoveTaskInput{SourceArn: &deadARN})
	e.must(err)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		out, err := e.client.ListMessageMoveTasks(e.Context(), &sqs.ListMessageMoveTasksInput{SourceArn: &deadARN})
		e.must(err)
		if len(out.Results) == 1 && aws.ToString(out.Results[0].Status) == "COMPLETED" {
			return
		}
	}
	e.Fatal("the move task did not complete within a minute")
}

var redriveCases = []behaviour{{
	name: "Redrive",
	aws: "Guide, dead-letter queues: moved when the receive count exceeds maxReceiveCount; " +
		"\"Setting-up dead-letter queue retention\": on a standard queue the enqueue timestamp is unchanged",
	run: func(e *env) {
		url, dead := e.pair("", 2)
		sent := e.send(url, "x", withAttributes(10))
		first := e.take(url, 1)[0]
		e.must(e.change(url, first, 0))
		m := e.kill(url, dead, 1)
		e.equal("id", *m.MessageId, *sent.MessageId)
		e.equal("sent", m.Attributes["SentTimestamp"], first.Attributes["SentTimestamp"])
		e.equal("receive count, across all queues", m.Attributes["ApproximateReceiveCount"], "3")
		e.equal("source", m.Attributes["DeadLetterQueueSourceArn"], e.arn(url))
		if len(m.MessageAttributes) != 10 {
			e.Errorf("%d attributes, want 10", len(m.MessageAttributes))
		}
	},
}, {
	name: "RedriveFIFO",
	aws: "Guide, \"Setting-up dead-letter queue retention\": on a FIFO queue the enqueue timestamp resets; " +
		"\"dead-letter queue redrive\": the deduplication id is replaced with the message's id",
	differs: map[server]string{elasticMQ: "keeps the timestamp"},
	run: func(e *env) {
		url, dead := e.pair(".fifo", 1)
		sent := e.send(url, "x", inGroup("g", "d"))
		first := e.take(url, 1)[0]
		e.must(e.change(url, first, 0))
		m := e.kill(url, dead, 0)
		e.equal("id", *m.MessageId, *sent.MessageId)
		e.equal("group", m.Attributes["MessageGroupId"], "g")
		if e.differs {
			e.equal("sent", m.Attributes["SentTimestamp"], first.Attributes["SentTimestamp"])
		} else if !e.moment(m, "SentTimestamp").After(e.moment(first, "SentTimestamp")) {
			e.Error("SentTimestamp was not reset")
		}
		e.equal("deduplication id", m.Attributes["MessageDeduplicationId"], *sent.MessageId)
	},
}, {
	name: "RedriveFIFOSiblings",
	aws: "API ReceiveMessage: a message that isn't deleted before its visibility ends counts as a failed receive; so a group's siblings, " +
		"given back behind a failing head, reach the dead-letter queue with it",
	run: func(e *env) {
		url, dead := e.pair(".fifo", 2)
		for _, body := range []string{"0", "1", "2"} {
			e.send(url, body, inGroup("g", body))
		}
		for range 2 {
			for _, m := range e.receive(url, 5) {
				e.must(e.change(url, m, 0))
			}
		}
		e.nothing(url, "all out of receives")
		e.equal("dead letters, in order", strings.Join(bodies(e.receive(dead, 5)), " "), "0 1 2")
	},
}, {
	name:    "RedrivePolicyOfAnotherType",
	aws:     "Guide, dead-letter queues: the dead-letter queue of a FIFO queue must also be a FIFO queue",
	differs: map[server]string{elasticMQ: "accepts it"},
	run: func(e *env) {
		dead := e.arn(e.queue(""))
		url := e.queue(".fifo")
		_, err := e.client.SetQueueAttributes(e.Context(), &sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: map[string]string{
			"RedrivePolicy": `{"deadLetterTargetArn":"` + dead + `","maxReceiveCount":3}`,
		}})
		e.refused(err, "InvalidParameterValue", "")
	},
}, {
	name:    "MoveTask",
	aws:     "Guide, \"dead-letter queue redrive\": redriven messages are considered new messages with a new messageID and enqueueTime",
	differs: map[server]string{elasticMQ: "keeps the MessageId"},
	run: func(e *env) {
		url, dead := e.pair("", 1)
		sent := e.send(url, "x", withAttributes(1))
		m := e.kill(url, dead, 1)
		e.must(e.change(dead, m, 0))
		e.moved(e.arn(dead))
		again := e.take(url, 1)[0]
		e.equal("body", *again.Body, "x")
		if len(again.MessageAttributes) != 1 {
			e.Errorf("%d attributes, want 1", len(again.MessageAttributes))
		}
		if same := *again.MessageId == *sent.MessageId; same != e.differs {
			e.Errorf("the MessageId is kept: %v, want %v", same, e.differs)
		}
	},
}}
