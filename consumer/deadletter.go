package consumer

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ackledger/ackledger/ledger"
)

// DeadLetterer forwards messages that failed for good: to an SQS queue (sqs.NewDeadLetterQueue), to a Kafka topic
// (kafka.NewDeadLetterTopic), or to wherever an implementation of yours sends them. Messages of any source may go to any
// target.
//
// The worker publishes, then settles the failure in the ledger together with the archive, and only then acknowledges. A
// process that is killed in between leaves the message with its broker: it may run again, and if it fails again, it is
// published again, under a higher token. So a dead letter may be there more than once, and there may be one of a message
// that succeeded in the end; the stamp tells which (see [Stamp]). None is lost: what cannot be published is in the
// ledger's archive all the same, marked as not sent (though it may have arrived, if only the answer was lost).
//
// Implementations are safe for concurrent use; one may serve many workers.
type DeadLetterer interface {
	// Publish returns nil only once the target has d durably. It neither keeps nor changes d. An error that is [Terminal]
	// says that another try cannot help this message (it is too large for the target); any other is tried again, up to
	// Options.DeadLetterTries. It ends when ctx does, at the latest.
	Publish(ctx context.Context, d *DeadLetter) error
	// Source asks the target for the name under which its messages would be consumed, as Message.Source: a worker
	// refuses a target that is its own source, and reports one that cannot be reached. Empty: it has no such name.
	Source(ctx context.Context) (string, error)
}

// Retainer is what a [DeadLetterer] may be besides: it says how long its target keeps a dead letter. Whatever sends the
// copy again may do so for that long, so a worker recognises its messages for as much longer (Options.Window). Those of sqs
// and kafka are; one that is none counts as keeping nothing.
type Retainer interface {
	// Retention returns the longest time for which the target keeps a message. An error that is [ErrUnbounded] says that
	// there is none, or that it may not be read: Run then wants Options.Window and Options.AllowShortWindow. Any other
	// error is a warning in Health.
	Retention(ctx context.Context) (time.Duration, error)
}

// ErrUnbounded says that a target may keep messages for ever, see [Retainer].
var ErrUnbounded = errors.New("may keep messages for ever")

// DeadLetter is one failed delivery: what is forwarded, and what sqs.ParseDeadLetter and kafka.ParseDeadLetter read back
// of the copy.
type DeadLetter struct {
	// Message is the delivery as the broker delivered it, whatever its handler did to it. Its ID is the identity in the
	// ledger; Attempt is the attempt that failed, 0 if none was made; Received is not carried.
	Message Message
	// Delivery is the id of the failed broker copy (ledger.Entry.Delivery); nil: not known.
	Delivery []byte
	// Stamp is the message's identity with the failing claim's token, for whoever sends it again. Nil: there is none,
	// because the message is no copy of what has its id (ledger.KindMismatch), or because the broker itself moved it and
	// its producer set none.
	Stamp *Stamp
	// Kind is why the message failed; empty: the broker moved it by itself.
	Kind ledger.FailureKind
	// Class is in which way the last attempt failed, Error its text: valid UTF-8 of at most [MaxDeadLetterError] bytes,
	// in which the body does not occur.
	Class ledger.FailureKind
	Error string
	// Consumer is the name of the consumer that failed: Options.Name, Kafka's group.
	Consumer string
	// FailedAt is when it failed, by the worker's clock, to the millisecond.
	FailedAt time.Time
}

// MaxDeadLetterError is the longest error text of a dead letter, in bytes. The archive keeps more.
const MaxDeadLetterError = 1 << 10

// minRedacted is the shortest body, in bytes, that is taken out of error texts: a shorter one is part of any text.
const minRedacted = 4

// DeadLetterError makes the text that goes with a dead letter of an error's: bounded, valid UTF-8, and without the
// message's body, since headers are shown where bodies are not.
func DeadLetterError(text string, body []byte) string {
	if len(body) >= minRedacted {
		text = strings.ReplaceAll(text, string(body), "[body]")
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= MaxDeadLetterError {
		return text
	}
	cut := MaxDeadLetterError - len("…")
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// Names of the headers that a dead letter has on Kafka beside the message's own and [StampName]. Values are text, numbers
// decimal, times milliseconds since 1970: as Kafka Connect writes its context headers (KIP-298). Spring Kafka has the same
// ones under kafka_dlt-, with numbers in binary. A header that is there already is replaced: a message that fails again
// does not grow.
//
// On SQS, where a message has ten attributes, they are the members of one: sqs.EnvelopeName.
const (
	HeaderOriginalSource    = "ackledger-original-source"    // Message.Source
	HeaderOriginalID        = "ackledger-original-id"        // Message.ID
	HeaderOriginalDelivery  = "ackledger-original-delivery"  // DeadLetter.Delivery
	HeaderOriginalTopic     = "ackledger-original-topic"     // Kafka
	HeaderOriginalPartition = "ackledger-original-partition" // Kafka
	HeaderOriginalOffset    = "ackledger-original-offset"    // Kafka
	HeaderOriginalTimestamp = "ackledger-original-timestamp" // Message.SentAt
	HeaderOriginalGroup     = "ackledger-original-group"     // SQS: Message.Group
	HeaderOriginalTypes     = "ackledger-original-types"     // SQS: the attributes' data types, in their order
	HeaderConsumer          = "ackledger-consumer"           // DeadLetter.Consumer
	HeaderKind              = "ackledger-kind"               // DeadLetter.Kind
	HeaderAttempts          = "ackledger-attempts"           // Message.Attempt
	HeaderFailedAt          = "ackledger-failed-at"          // DeadLetter.FailedAt
	HeaderExceptionClass    = "ackledger-exception-class"    // DeadLetter.Class
	HeaderExceptionMessage  = "ackledger-exception-message"  // DeadLetter.Error
)

// IsDeadLetterHeader says whether a dead letter sets the header itself, and so replaces a message's own of that name.
func IsDeadLetterHeader(name string) bool {
	switch name {
	case StampName, HeaderOriginalSource, HeaderOriginalID, HeaderOriginalDelivery, HeaderOriginalTopic, HeaderOriginalPartition,
		HeaderOriginalOffset, HeaderOriginalTimestamp, HeaderOriginalGroup, HeaderOriginalTypes, HeaderConsumer, HeaderKind,
		HeaderAttempts, HeaderFailedAt, HeaderExceptionClass, HeaderExceptionMessage:
		return true
	}
	return false
}
