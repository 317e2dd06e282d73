package consumer

import (
	"context"
	"slices"

	"github.com/ackledger/ackledger/ledger"
)

// Publish writes messages for brokers in the commit of the InTx that ctx belongs to: with its effects, or not at all. They are sent
// afterwards, by any worker of the ledger that has [Options.Relay], in the order of their commits for each key of a target, with a stamp
// ([Stamp]), by which consumers of this module recognise what is sent twice. It is for the functions of InTx, of all workers and of
// idempotency.Runner:
//
//	err := postgres.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
//		if _, err := tx.Exec(ctx, "INSERT INTO orders (id) VALUES ($1)", id); err != nil {
//			return err
//		}
//		return consumer.Publish(ctx, ledger.Outgoing{Target: "shipments", Key: id, Body: body})
//	})
//
// [Options.Cipher], or that of a runner, seals body and headers before they are written; [Relay].Cipher opens them.
//
// It asks no database, except for once a second whether there is room. What is published in a savepoint that is rolled back is published
// all the same: it belongs to the whole transaction. Bodies are not copied, so they must stay as they are until InTx has returned.
//
// Errors: [ledger.ErrNotInTx] outside of InTx, or once its function has returned; [ledger.ErrNoAttempt] outside of a handler;
// [ledger.ErrNoOutbox] if the store has none; [ledger.ErrOutboxFull], for which ledger.Unavailable is true, so that no attempt is counted, however
// often; one of the cipher, for which it is true as well, and which counts from the sixth time in a row on; an [*ledger.InvalidError] for what
// cannot be stored: then none of the messages is kept. A handler that gets an error should return it.
func Publish(ctx context.Context, messages ...ledger.Outgoing) error {
	a, ok := ledger.AttemptFrom(ctx)
	if one, is := ctx.Value(oneKey{}).(*oneOf); is && !ok {
		a, ok = one.attempt, one.attempt != nil
	}
	if !ok {
		return ledger.ErrNoAttempt
	}
	messages, err := sealOutgoing(ctx, messages)
	if err != nil {
		return err
	}
	return a.Publish(ctx, messages...)
}

// sealOutgoing seals messages, if there is a cipher.
func sealOutgoing(ctx context.Context, messages []ledger.Outgoing) ([]ledger.Outgoing, error) {
	c, ok := ctx.Value(stepCipherKey{}).(ledger.Cipher)
	if !ok {
		return messages, nil
	}
	ctx, cancel := context.WithTimeout(ctx, ledger.CallTimeout)
	defer cancel()
	messages = slices.Clone(messages)
	for i := range messages {
		if err := messages[i].Seal(ctx, c); err != nil {
			return nil, ledger.MarkUnavailable(err)
		}
	}
	return messages, nil
}

// Publisher sends what was published to one target: a topic (kafka.NewPublisher), a queue (sqs.NewPublisher), or whatever an
// implementation of yours sends to. Implementations are safe for concurrent use.
type Publisher interface {
	// Publish sends messages of one lane, in their order where they have one Key. It returns an error for each, or nil instead of the slice if
	// the target has all of them durably. Behind a message that failed none of its key is sent. It ends when ctx does, at the latest.
	//
	// An error for which [ledger.Unavailable] is true is an outage: the message is sent again, as often as it takes. One that is [Terminal]
	// says that the target will never take this message. Any other is counted ([Relay].Tries). Errors of messages that were not sent alone
	// are not believed: each is sent alone before it is given up.
	Publish(ctx context.Context, messages []Publication) []error
	// Source asks the target for the name under which its messages are consumed, as Message.Source: stamps name it. Empty: it has no such
	// name, and what is sent has no stamp.
	Source(ctx context.Context) (string, error)
}

// Publication is a message that is sent. The publisher neither keeps nor changes it.
type Publication struct {
	ledger.Outgoing
	Source string // of the target
	Stamp  *Stamp // nil: none
}
