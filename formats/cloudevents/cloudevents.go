package cloudevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strings"

	"github.com/cloudevents/sdk-go/v2/binding/format"
	"github.com/cloudevents/sdk-go/v2/binding/spec"
	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/ackledger/ackledger/consumer"
)

// bindings are the prefixes that are looked for, in this order; the first by which a version is named is the message's.
var bindings = []*spec.Versions{spec.WithPrefix("ce_"), spec.WithPrefix("ce-")}

// contentType is the header that says what the body is. Its name is compared without regard to case.
const contentType = "content-type"

// Decode reads a message's event, valid by its version of the specification. Its errors are terminal; they name attributes, never
// what is in them, and no body. The event's data is the message's body, or a part of it. It may be called concurrently.
func Decode(m *consumer.Message) (*event.Event, error) {
	e, err := decode(m)
	if err != nil {
		return nil, consumer.Terminal(fmt.Errorf("message %s: %w", m.ID, err))
	}
	return e, nil
}

func decode(m *consumer.Message) (*event.Event, error) {
	kind := header(m, contentType)
	if format.IsFormat(strings.ToLower(kind)) {
		return structured(m, kind)
	}
	for _, versions := range bindings {
		if v := header(m, versions.PrefixedSpecVersionName()); v != "" {
			return binary(m, versions, v, kind)
		}
	}
	return structured(m, event.ApplicationCloudEventsJSON)
}

// header is the last one of that name, in whatever case: HTTP gateways change it.
func header(m *consumer.Message, name string) string {
	for _, h := range slices.Backward(m.Headers) {
		if strings.EqualFold(h.Name, name) {
			return string(h.Value)
		}
	}
	return ""
}

func structured(m *consumer.Message, kind string) (*event.Event, error) {
	name, _, err := mime.ParseMediaType(kind)
	switch {
	case err != nil:
		return nil, fmt.Errorf("CloudEvent: header content-type: %w", err)
	case name == event.ApplicationCloudEventsBatchJSON:
		return nil, errors.New("CloudEvent: is a batch: must be one event")
	case name != event.ApplicationCloudEventsJSON:
		return nil, fmt.Errorf("CloudEvent: content-type must be %s, is %.100q", event.ApplicationCloudEventsJSON, name)
	}
	var v struct {
		Version *string `json:"specversion"`
	}
	if err := consumer.DecodeJSON(m.Body, &v); err != nil { // the SDK's errors quote the body, these do not
		return nil, fmt.Errorf("CloudEvent: %w", err)
	}
	if v.Version == nil {
		return nil, errors.New("CloudEvent: there is neither a header ce_specversion nor a field specversion in the body")
	}
	e := &event.Event{}
	if err := e.UnmarshalJSON(m.Body); err != nil {
		return nil, fmt.Errorf("CloudEvent in JSON of %d bytes: an attribute does not fit its type", len(m.Body))
	}
	return e, valid(e)
}

func binary(m *consumer.Message, versions *spec.Versions, name, kind string) (*event.Event, error) {
	version := versions.Version(name)
	if version == nil {
		return nil, fmt.Errorf("CloudEvent: specversion must be 1.0 or 0.3, is %.20q", name)
	}
	attributes := version.NewContext()
	for _, h := range m.Headers {
		if err := version.SetAttribute(attributes, h.Name, string(h.Value)); err != nil {
			return nil, fmt.Errorf("CloudEvent: header %.100q has no value of its type, or no name of an attribute", h.Name)
		}
	}
	if kind != "" {
		if err := attributes.SetDataContentType(kind); err != nil {
			return nil, errors.New("CloudEvent: header content-type has no media type")
		}
	}
	e := &event.Event{Context: attributes, DataEncoded: m.Body}
	return e, valid(e)
}

func valid(e *event.Event) error {
	err := e.Validate()
	if wrong, ok := errors.AsType[event.ValidationError](err); ok {
		return fmt.Errorf("CloudEvent: attributes are missing or wrong: %s", strings.Join(slices.Sorted(maps.Keys(wrong)), ", "))
	}
	return err
}

// Handler returns a handler for messages that are events. What is none fails for good. f may be called concurrently; the event
// belongs to it until it returns. A nil f gives nil, which workers refuse.
func Handler(f func(context.Context, event.Event) error) consumer.Handler {
	if f == nil {
		return nil
	}
	return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		e, err := Decode(m)
		if err != nil {
			return err
		}
		return f(ctx, *e)
	})
}

// Events is middleware for handlers of an event's data, such as consumer.JSON: the body that next sees is the data, and
// [From] returns the event. What is no event fails for good. A nil next gives nil.
func Events(next consumer.Handler) consumer.Handler {
	if next == nil {
		return nil
	}
	return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		e, err := Decode(m)
		if err != nil {
			return err
		}
		inner := *m
		inner.Body = e.Data()
		return next.Handle(context.WithValue(ctx, eventKey{}, e), &inner)
	})
}

type eventKey struct{}

// From returns the event that the handler's message is, behind [Events]; nil elsewhere. It is not to be changed.
func From(ctx context.Context) *event.Event {
	e, _ := ctx.Value(eventKey{}).(*event.Event)
	return e
}

// Type is for consumer.NewRouter behind [Events]: the event's type; "" elsewhere.
func Type(ctx context.Context, _ *consumer.Message) string {
	if e := From(ctx); e != nil {
		return e.Type()
	}
	return ""
}

// Key is for consumer.Options.KeyFunc, with [Fingerprint] for FingerprintFunc: the length of the event's source, its source and
// its id. A key of more than 1,024 bytes is refused by the worker.
func Key(m *consumer.Message) (string, error) {
	e, err := Decode(m)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d:%s:%s", len(e.Source()), e.Source(), e.ID()), nil
}

// Fingerprint is for consumer.Options.FingerprintFunc: the attributes that say what happened, and the data. The time and the
// extensions are left out, since a producer may set them anew when it sends an event again (a trace, a sequence).
func Fingerprint(m *consumer.Message) ([]byte, error) {
	e, err := Decode(m)
	if err != nil {
		return nil, err
	}
	return json.Marshal([]any{e.Source(), e.ID(), e.Type(), e.Subject(), e.DataSchema(), e.DataContentType(), e.Data()})
}
