package consumer

import (
	"bytes"
	"slices"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// Header is one header (Kafka) or attribute (SQS) of a message. Order and duplicates are kept.
type Header = ledger.Header

// Message is one message as a handler sees it, the same for every broker. It belongs to the handler until it returns;
// what the handler changes in it changes neither the message's identity nor what is archived if it fails.
type Message struct {
	// ID is the message's identity in the ledger: the SQS MessageId, `topic-partition-offset`, or what KeyFunc returned.
	ID string
	// Source is the queue's ARN, or the Kafka cluster id and topic as `cluster/topic`.
	Source string
	// Group is the MessageGroupId of an SQS message: its FIFO group, or its tenant on a standard queue. Empty: it has none, and on Kafka.
	Group string
	// Key is the key of a Kafka record; nil for one without a key, and for SQS.
	Key []byte
	// Body is the SQS body or the value of the Kafka record. A nil body (a tombstone) is not an empty one.
	Body []byte
	// Headers are in the order of the broker.
	Headers []Header
	// SentAt is the broker's timestamp. Producers can set it on Kafka: it may be absurd.
	SentAt time.Time
	// Attempt counts the attempts of this message by the ledger, from 1: releases for a reason of our own (shutdown,
	// rebalance, outage) count none.
	Attempt int
	// Received is how often the broker says it delivered the message (SQS: ApproximateReceiveCount); 0: it does not say.
	Received int
	// Topic, Partition and Offset place a Kafka record; Topic is empty for SQS.
	Topic     string
	Partition int32
	Offset    int64
}

// Clone returns a copy that shares no bytes with m.
func (m *Message) Clone() Message {
	own := *m
	own.Key, own.Body, own.Headers = bytes.Clone(m.Key), bytes.Clone(m.Body), slices.Clone(m.Headers)
	for i := range own.Headers {
		own.Headers[i].Value = bytes.Clone(own.Headers[i].Value)
	}
	return own
}

// Header returns the value of the last header with that name, and whether there is one.
func (m *Message) Header(name string) ([]byte, bool) {
	for i := len(m.Headers) - 1; i >= 0; i-- {
		if m.Headers[i].Name == name {
			return m.Headers[i].Value, true
		}
	}
	return nil, false
}
