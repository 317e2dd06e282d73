package envelope

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ackledger/ackledger/consumer"
)

// EventBridgeEvent is an event of Amazon EventBridge
// (docs.aws.amazon.com/eventbridge/latest/ref/overiew-event-structure.html).
type EventBridgeEvent struct {
	// Version is "0".
	Version string `json:"version"`
	// ID is EventBridge's id of the event.
	ID string `json:"id"`
	// DetailType says with Source what Detail has.
	DetailType string `json:"detail-type"`
	Source     string `json:"source"`
	// Account is the 12 digits of the AWS account.
	Account string    `json:"account"`
	Time    time.Time `json:"time"`
	Region  string    `json:"region"`
	// Resources are ARNs; empty for none.
	Resources []string `json:"resources"`
	// Detail is the event itself: a JSON object.
	Detail json.RawMessage `json:"detail"`
	// ReplayName is that of the replay of an archive which sent the event again; empty for one that comes first.
	ReplayName string `json:"replay-name,omitempty"`
}

// DecodeEventBridge reads the body of a message that EventBridge has sent. Its errors are terminal. A rule with an input
// transformer sends another body, without an envelope: such messages need none of this.
func DecodeEventBridge(body []byte) (*EventBridgeEvent, error) {
	e := &EventBridgeEvent{}
	err := consumer.DecodeJSON(body, e)
	switch detail := bytes.TrimSpace(e.Detail); {
	case err != nil:
	case e.ID == "":
		err = errors.New("field id is missing or empty")
	case e.DetailType == "":
		err = errors.New("field detail-type is missing or empty")
	case e.Source == "":
		err = errors.New("field source is missing or empty")
	case len(detail) == 0:
		err = errors.New("field detail is missing")
	case detail[0] != '{':
		err = errors.New("field detail must be an object, is another value")
	}
	if err != nil {
		return nil, consumer.Terminal(fmt.Errorf("EventBridge envelope: %w", err))
	}
	return e, nil
}

// EventBridge is middleware for a queue that rules of EventBridge send to. The body that next sees is the event's detail, a JSON
// object. A message without the envelope fails for good. A nil next gives nil.
func EventBridge(next consumer.Handler) consumer.Handler {
	if next == nil {
		return nil
	}
	return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		e, err := DecodeEventBridge(m.Body)
		if err != nil {
			return of(m, err)
		}
		inner := *m
		inner.Body = e.Detail
		return next.Handle(context.WithValue(ctx, eventBridgeKey{}, e), &inner)
	})
}

type eventBridgeKey struct{}

// EventBridgeFrom returns the event that the handler's message came in; nil if it came in none. Its Detail is the body: who
// changes one changes the other.
func EventBridgeFrom(ctx context.Context) *EventBridgeEvent {
	e, _ := ctx.Value(eventBridgeKey{}).(*EventBridgeEvent)
	return e
}

// DetailType is for consumer.NewRouter behind [EventBridge]: the event's source, a slash and its detail-type, such as
// "aws.ec2/EC2 Instance State-change Notification"; "" for a message that came in no event.
func DetailType(ctx context.Context, _ *consumer.Message) string {
	e := EventBridgeFrom(ctx)
	if e == nil {
		return ""
	}
	return e.Source + "/" + e.DetailType
}

// EventBridgeKey is for consumer.Options.KeyFunc, with [EventBridgeFingerprint] for FingerprintFunc: the event's id. It is the same
// for all deliveries of an event: EventBridge delivers at least once, and once for each rule that matches. Who replays an archive
// to have its events handled again derives the key of ID and ReplayName instead.
func EventBridgeKey(m *consumer.Message) (string, error) {
	e, err := DecodeEventBridge(m.Body)
	if err != nil {
		return "", err
	}
	return e.ID, nil
}

// EventBridgeFingerprint is for consumer.Options.FingerprintFunc: the whole event but the name of a replay.
func EventBridgeFingerprint(m *consumer.Message) ([]byte, error) {
	e, err := DecodeEventBridge(m.Body)
	if err != nil {
		return nil, err
	}
	e.ReplayName = ""
	return json.Marshal(e)
}
