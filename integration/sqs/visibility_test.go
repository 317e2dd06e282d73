package sqs_test

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

var visibilityCases = []behaviour{{
	name: "VisibilityEnds",
	aws:  "Guide, visibility timeout: a message that is not deleted before the timeout becomes visible again, and can be received again",
	run: func(e *env) {
		url := e.queue("")
		e.send(url, "x")
		first := e.take(url, 1, hidden(2))[0]
		e.nothing(url, "in flight")
		second := e.take(url, 1)[0]
		e.equal("id", *second.MessageId, *first.MessageId)
		e.equal("receive count", second.Attributes["ApproximateReceiveCount"], "2")
		e.equal("first receive", second.Attributes["ApproximateFirstReceiveTimestamp"], first.Attributes["ApproximateFirstReceiveTimestamp"])
		if *second.ReceiptHandle == *first.ReceiptHandle {
			e.Error("both receives have one receipt handle")
		}
	},
}, {
	name: "VisibilityExtendedAndGivenBack",
	aws:  "API ChangeMessageVisibility: the new timeout counts from the call; 0 makes the message available at once",
	run: func(e *env) {
		url := e.queue("")
		e.send(url, "x")
		m := e.take(url, 1, hidden(2))[0]
		e.must(e.change(url, m, 30))
		e.nothing(url, "extended")
		e.nothing(url, "extended")
		e.must(e.change(url, m, 0))
		e.take(url, 1)
	},
}, {
	name:    "VisibilityOverTwelveHours",
	aws:     "API ChangeMessageVisibility: values range from 0 to 43200, maximum 12 hours",
	differs: map[server]string{elasticMQ: "accepts it"},
	run: func(e *env) {
		url := e.queue("")
		e.send(url, "x")
		e.refused(e.change(url, e.take(url, 1)[0], 43201), "InvalidParameterValue", "")
	},
}, {
	name:    "VisibilityBeyondTheTimeLeft",
	aws:     "API ChangeMessageVisibility: a VisibilityTimeout greater than the maximum time left returns an error",
	differs: map[server]string{elasticMQ: "accepts it"},
	run: func(e *env) {
		url := e.queue("")
		e.send(url, "x")
		m := e.take(url, 1)[0]
		received := time.Now()
		e.nothing(url, "a second goes by")
		e.nothing(url, "and another")
		if time.Since(received) < 1800*time.Millisecond {
			e.Fatal("two polls of 1 s took less")
		}
		e.refused(e.change(url, m, 43200), "InvalidParameterValue", "")
	},
}, {
	name:    "VisibilityOfAVisibleMessage",
	aws:     "API ChangeMessageVisibility errors: MessageNotInflight, the specified message isn't in flight",
	differs: map[server]string{elasticMQ: "accepts it, and hides the message"},
	run: func(e *env) {
		url := e.queue("")
		e.send(url, "x")
		m := e.take(url, 1)[0]
		e.must(e.change(url, m, 0))
		e.refused(e.change(url, m, 10), "MessageNotInflight", "")
	},
}, {
	name: "HandleThatIsNone",
	aws:  "API DeleteMessage errors: ReceiptHandleIsInvalid",
	run: func(e *env) {
		url := e.queue("")
		e.send(url, "x")
		m := e.take(url, 1)[0]
		*m.ReceiptHandle = "nonsense"
		e.code(e.delete(url, m), "ReceiptHandleIsInvalid")
		e.code(e.change(url, m, 0), "ReceiptHandleIsInvalid")
	},
}, {
	name:    "DeleteTwice",
	aws:     "not documented for a message that is gone; API DeleteMessage: an old ReceiptHandle's request will succeed",
	differs: map[server]string{elasticMQ: "ReceiptHandleIsInvalid"},
	run: func(e *env) {
		url := e.queue("")
		e.send(url, "x")
		m := e.take(url, 1)[0]
		e.must(e.delete(url, m))
		err := e.delete(url, m)
		if e.differs {
			e.code(err, "ReceiptHandleIsInvalid")
			return
		}
		e.must(err)
	},
}, {
	name: "DeleteAfterTheVisibility",
	aws:  "API DeleteMessage: a message can be deleted by the handle of its most recent receive, also when it became visible (standard queues)",
	run: func(e *env) {
		url := e.queue("")
		e.send(url, "x")
		m := e.take(url, 1)[0]
		e.must(e.change(url, m, 0))
		e.must(e.delete(url, m))
		e.nothing(url, "deleted")
	},
}, {
	name:    "DeleteByAnOldHandle",
	aws:     "API DeleteMessage: if you use an old ReceiptHandle, the request will succeed, but the message might not be deleted",
	differs: map[server]string{elasticMQ: "ReceiptHandleIsInvalid"},
	run: func(e *env) {
		url := e.queue("")
		e.send(url, "x")
		old := e.take(url, 1)[0]
		e.must(e.change(url, old, 0))
		newest := e.take(url, 1)[0]
		err := e.delete(url, old)
		if e.differs {
			e.code(err, "ReceiptHandleIsInvalid")
		} else {
			e.must(err)
		}
		e.must(e.delete(url, newest))
		e.nothing(url, "deleted by the newest handle")
	},
}, {
	name: "CancelledPollTakesMessages",
	aws: "not documented; a service that cannot see its client go behaves so. Guide, \"Avoiding inconsistent message processing\": " +
		"a message can be marked as delivered although the consumer has never received it",
	run: func(e *env) {
		url := e.queue("", "VisibilityTimeout", "4")
		ctx, cancel := context.WithTimeout(e.Context(), 15*time.Second)
		defer cancel()
		go func() {
			e.polled(ctx, url)
			cancel()
		}()
		if _, err := e.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &url, WaitTimeSeconds: 20}); err == nil {
			e.Fatal("a cancelled poll answered")
		}
		e.send(url, "x")
		if e.server == realAWS || e.server == other { // allowed either way
			e.take(url, 1)
			return
		}
		if e.differs {
			e.equal("receive count", e.take(url, 1)[0].Attributes["ApproximateReceiveCount"], "1")
			return
		}
		e.nothing(url, "it is with the cancelled poll")
		e.equal("receive count", e.take(url, 1)[0].Attributes["ApproximateReceiveCount"], "2")
	},
}}
