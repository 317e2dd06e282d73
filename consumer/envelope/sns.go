package envelope

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ackledger/ackledger/consumer"
)

// SNSMessage is a notification of Amazon SNS as it comes to a queue, without its signature
// (docs.aws.amazon.com/sns/latest/dg/sns-message-and-json-formats.html).
type SNSMessage struct {
	// MessageID is SNS's id: the same however often SNS delivers the message, unlike that of SQS.
	MessageID string `json:"MessageId"`
	// TopicARN is where the message was published.
	TopicARN string `json:"TopicArn"`
	// Subject is empty for a message without one.
	Subject string `json:"Subject"`
	// Message is what was published: UTF-8 text.
	Message string `json:"Message"`
	// SequenceNumber is that of a FIFO topic; empty for others.
	SequenceNumber string `json:"SequenceNumber"`
	// Timestamp is when it was published.
	Timestamp time.Time `json:"Timestamp"`
	// MessageAttributes are by their name; nil for none.
	MessageAttributes map[string]SNSAttribute `json:"MessageAttributes"`
}

// SNSAttribute is one attribute of a notification. Type is String, String.Array, Number or Binary; the value of a Binary is
// base64.
type SNSAttribute struct {
	Type  string `json:"Type"`
	Value string `json:"Value"`
}

// DecodeSNS reads the body of a message that SNS has put around what was published. Its errors are terminal. It may be called
// concurrently, as all functions here.
func DecodeSNS(body []byte) (*SNSMessage, error) {
	n, err := decodeSNS(body)
	if err != nil {
		return nil, consumer.Terminal(fmt.Errorf("SNS envelope: %w", err))
	}
	return n, nil
}

func decodeSNS(body []byte) (*SNSMessage, error) {
	var v struct{ Type, Message *string }
	if err := consumer.DecodeJSON(body, &v); err != nil {
		return nil, err
	}
	n := &SNSMessage{}
	switch {
	case v.Type == nil:
		return nil, errors.New("field Type is missing: a subscription with raw message delivery has no envelope (SNSOrRaw)")
	case *v.Type == "SubscriptionConfirmation" || *v.Type == "UnsubscribeConfirmation":
		return nil, fmt.Errorf("is a %s, not a Notification: whoever administers the topic must answer it", *v.Type)
	case *v.Type != "Notification":
		return nil, fmt.Errorf("field Type must be Notification, is another text of %d bytes", len(*v.Type))
	case v.Message == nil:
		return nil, errors.New("field Message is missing")
	}
	switch err := consumer.DecodeJSON(body, n); {
	case err != nil:
		return nil, err
	case n.MessageID == "":
		return nil, errors.New("field MessageId is missing or empty")
	case n.TopicARN == "":
		return nil, errors.New("field TopicArn is missing or empty")
	}
	return n, nil
}

// headers are the attributes as SQS would have them with raw delivery, by name.
func (n *SNSMessage) headers() (out []consumer.Header, err error) {
	for _, name := range slices.Sorted(maps.Keys(n.MessageAttributes)) {
		a := n.MessageAttributes[name]
		h := consumer.Header{Name: name, Type: a.Type, Value: []byte(a.Value)}
		if a.Type == "Binary" {
			if h.Value, err = base64.StdEncoding.DecodeString(a.Value); err != nil {
				return nil, fmt.Errorf("SNS envelope: attribute %.100q of type Binary: %w", name, err)
			}
		}
		out = append(out, h)
	}
	return out, nil
}

// SNS is middleware for a queue that is subscribed to topics without raw message delivery. The body that next sees is what was
// published; its attributes are behind the message's own headers, as SQS has them with raw delivery. A message without the
// envelope fails for good. A nil next gives nil.
func SNS(next consumer.Handler) consumer.Handler { return sns(next, false) }

// SNSOrRaw is SNS for queues that have other messages too: of subscriptions with raw message delivery, and of producers who
// send to the queue itself. What is no envelope goes to next as it is. Whoever publishes can make a body that looks like an
// envelope, so what [SNSFrom] says is no proof of where it came from.
func SNSOrRaw(next consumer.Handler) consumer.Handler { return sns(next, true) }

func sns(next consumer.Handler, raw bool) consumer.Handler {
	if next == nil {
		return nil
	}
	return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		if raw && !looksLikeSNS(m.Body) {
			return next.Handle(ctx, m)
		}
		n, err := DecodeSNS(m.Body)
		if err != nil {
			return of(m, err)
		}
		headers, err := n.headers()
		if err != nil {
			return of(m, consumer.Terminal(err))
		}
		inner := *m
		inner.Body = []byte(n.Message)
		inner.Headers = slices.Concat(m.Headers, headers)
		return next.Handle(context.WithValue(ctx, snsKey{}, n), &inner)
	})
}

// looksLikeSNS says whether a body is an object with the fields that SNS always has. A type other than text is not SNS's.
func looksLikeSNS(body []byte) bool {
	var v struct {
		Type      *string `json:"Type"`
		MessageID *string `json:"MessageId"`
		TopicARN  *string `json:"TopicArn"`
		Message   *string `json:"Message"`
	}
	if consumer.DecodeJSON(body, &v) != nil {
		return false
	}
	return v.Type != nil && v.MessageID != nil && v.TopicARN != nil && v.Message != nil
}

type snsKey struct{}

// SNSFrom returns the notification that the handler's message came in; nil if it came in none.
func SNSFrom(ctx context.Context) *SNSMessage {
	n, _ := ctx.Value(snsKey{}).(*SNSMessage)
	return n
}

// SNSKey is for consumer.Options.KeyFunc, with [SNSFingerprint] for FingerprintFunc: the id of SNS. SNS delivers a message to a
// queue at least once, each time with another id of SQS (docs.aws.amazon.com/sns/latest/dg/sns-message-delivery-retries.html).
func SNSKey(m *consumer.Message) (string, error) {
	n, err := DecodeSNS(m.Body)
	if err != nil {
		return "", err
	}
	return n.MessageID, nil
}

// SNSFingerprint is for consumer.Options.FingerprintFunc: all that was published, and where. What SNS adds for a delivery (its
// signature, the time, the address to unsubscribe) is left out.
func SNSFingerprint(m *consumer.Message) ([]byte, error) {
	n, err := DecodeSNS(m.Body)
	if err != nil {
		return nil, err
	}
	n.Timestamp = time.Time{}
	return json.Marshal(n)
}

// of names the message.
func of(m *consumer.Message, err error) error {
	return consumer.Terminal(fmt.Errorf("message %s: %w", m.ID, err))
}
