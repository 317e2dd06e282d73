package sqs_test

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

var fifoCases = []behaviour{{
	name: "FIFOOrderAndHeldGroup",
	aws:  "API ReceiveMessage: while messages with a particular MessageGroupId are invisible, no more messages of that group are returned; others are",
	run: func(e *env) {
		url := e.queue(".fifo")
		for _, body := range []string{"a0", "a1", "a2"} {
			e.send(url, body, inGroup("a", body))
		}
		two := func(in *sqs.ReceiveMessageInput) { in.MaxNumberOfMessages = 2 }
		got := e.receive(url, 5, two)
		e.equal("several of a group, in order", strings.Join(bodies(got), " "), "a0 a1")
		e.nothing(url, "group held")
		e.send(url, "b0", inGroup("b", "b0"))
		e.equal("another group", strings.Join(bodies(e.take(url, 1)), " "), "b0")
		e.must(e.delete(url, got[1]))
		e.nothing(url, "held by the first")
		e.must(e.change(url, got[0], 0))
		e.equal("the returned one first", strings.Join(bodies(e.receive(url, 5)), " "), "a0 a2")
	},
}, {
	name:    "FIFOGroupHeldByALaterMessage",
	aws:     "API ReceiveMessage: as above; it does not matter which message of the group is invisible",
	differs: map[server]string{elasticMQ: "returns the head while a later message is in flight"},
	run: func(e *env) {
		url := e.queue(".fifo")
		for _, body := range []string{"a0", "a1"} {
			e.send(url, body, inGroup("a", body))
		}
		got := e.receive(url, 5)
		e.equal("both", strings.Join(bodies(got), " "), "a0 a1")
		e.must(e.change(url, got[0], 0))
		if e.differs {
			e.equal("head", strings.Join(bodies(e.take(url, 1)), " "), "a0")
			return
		}
		e.nothing(url, "held by the second")
		e.must(e.delete(url, got[1]))
		e.equal("head", strings.Join(bodies(e.take(url, 1)), " "), "a0")
	},
}, {
	name: "FIFODeduplication",
	aws: "API SendMessage: messages sent with the same MessageDeduplicationId are accepted but not delivered during the 5-minute interval; " +
		"the id is tracked even after the message is received and deleted",
	run: func(e *env) {
		url := e.queue(".fifo")
		first := e.send(url, "x", inGroup("g", "d"))
		e.must(e.delete(url, e.take(url, 1)[0]))
		second := e.send(url, "another body", inGroup("g", "d"))
		e.equal("the answer names the first", *second.MessageId, *first.MessageId)
		e.nothing(url, "a repeat")
	},
}, {
	name: "FIFOContentDeduplication",
	aws:  "API SendMessage: with ContentBasedDeduplication the id is a SHA-256 of the body; an explicit id overrides it",
	run: func(e *env) {
		url := e.queue(".fifo", "ContentBasedDeduplication", "true")
		e.send(url, "same", inGroup("g", ""))
		e.send(url, "same", inGroup("g", ""))
		e.send(url, "same", inGroup("g", "explicit"))
		e.take(url, 2)
		e.nothing(url, "the repeat")
	},
}, {
	name: "FIFOParameters",
	aws:  "API SendMessage: FIFO needs MessageGroupId and a deduplication id; DelaySeconds can be set only on the queue",
	run: func(e *env) {
		url := e.queue(".fifo")
		_, err := e.trySend(url, "x", func(in *sqs.SendMessageInput) { in.MessageDeduplicationId = new("d") })
		e.code(err, "MissingParameter")
		_, err = e.trySend(url, "x", inGroup("g", ""))
		e.code(err, "InvalidParameterValue")
		_, err = e.trySend(url, "x", inGroup("g", "d"), func(in *sqs.SendMessageInput) { in.DelaySeconds = 1 })
		e.code(err, "InvalidParameterValue")
	},
}, {
	name:    "FIFODeleteByAnExpiredHandle",
	aws:     "AWS re:Post, sqs-receipt-handle-error: outside the visibility timeout, InvalidParameterValue, \"The receipt handle has expired\"",
	differs: map[server]string{elasticMQ: "accepts it, and deletes"},
	run: func(e *env) {
		url := e.queue(".fifo")
		e.send(url, "x", inGroup("g", "d"))
		m := e.take(url, 1)[0]
		e.must(e.change(url, m, 0))
		e.refused(e.delete(url, m), "InvalidParameterValue", "")
		if e.differs {
			e.nothing(url, "deleted")
			return
		}
		e.take(url, 1) // it is still there
	},
}, {
	name:    "FIFODeleteByAnOlderHandle",
	aws:     "AWS re:Post, sqs-receipt-handle-error: the handle of an earlier receive has expired, InvalidParameterValue",
	differs: map[server]string{elasticMQ: "ReceiptHandleIsInvalid"},
	run: func(e *env) {
		url := e.queue(".fifo")
		e.send(url, "x", inGroup("g", "d"))
		old := e.take(url, 1, hidden(1))[0]
		newest := e.take(url, 1)[0]
		e.refused(e.delete(url, old), "InvalidParameterValue", "ReceiptHandleIsInvalid")
		e.must(e.delete(url, newest))
		e.nothing(url, "deleted by the newest handle")
	},
}, {
	name:    "FIFOChangeByAnExpiredHandle",
	aws:     "AWS re:Post, sqs-receipt-handle-error: a FIFO receipt handle expires with the visibility timeout",
	differs: map[server]string{elasticMQ: "accepts it, and hides the message"},
	run: func(e *env) {
		url := e.queue(".fifo")
		e.send(url, "x", inGroup("g", "d"))
		m := e.take(url, 1)[0]
		e.must(e.change(url, m, 0))
		e.refused(e.change(url, m, 30), "InvalidParameterValue", "")
	},
}}
