package sqs

import (
	"github.com/ackledger/ackledger/consumer"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// MaxMessage is how many bytes the largest message has with its attributes, its trace header and its group (SQS developer guide, "Amazon
// SQS message quotas"): a ledger's Limits.Archive must cover it.
const MaxMessage = maxMessage + traceBytes + groupBytes

// Received returns what a handler sees of a message that was received from the queue with this ARN, whoever received it: a [Worker]
// hands over the same. It is for those who get messages otherwise, as package lambdasqs does. Attempt is left zero. Nothing in it is
// shared with raw but immutable strings. It may be called concurrently.
func Received(raw *types.Message, arn string) consumer.Message {
	m, _ := newMessage(raw, arn)
	return m
}

// Scope returns the ledger.Key's scope of a queue's messages, by the queue's ARN and the consumer's name (Options.Name). Whoever uses
// the same scope on the same ledger shares the messages' rows with a [Worker].
func Scope(arn, name string) string { return scopeOf(arn, name) }
