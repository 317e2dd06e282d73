package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
)

// NewRouter returns a handler that gives each message to the handler of its type. The type is what typeOf says: a header
// ([TypeHeader]), or what middleware has put into the context, such as envelope.EventBridgeFrom(ctx).DetailType.
//
// A type that no handler is for goes to fallback. Without one (nil) the message fails for good: its error names the type, cut
// after 100 characters, so a type must be no secret. It is then in the archive, and at Options.DeadLetter; once there is a handler,
// a replay brings it back.
//
// A [BatchHandler] behind a router gets single messages, as behind any middleware. Work in bulk goes to a queue or topic of
// its own, or to one batch handler that looks at the types itself.
//
// It is refused, by name, without typeOf, without any handler, and with a nil handler. The map is copied. The handler may be
// called concurrently if typeOf may.
func NewRouter(typeOf func(context.Context, *Message) string, handlers map[string]Handler, fallback Handler) (Handler, error) {
	if typeOf == nil {
		return nil, errors.New("consumer: NewRouter: typeOf must be a function, is nil")
	}
	if len(handlers) == 0 && fallback == nil {
		return nil, errors.New("consumer: NewRouter: must have a handler at least, has none")
	}
	for name, h := range handlers {
		if h == nil || isNil(h) {
			return nil, fmt.Errorf("consumer: NewRouter: the handler for %q must not be nil", name)
		}
	}
	if fallback != nil && isNil(fallback) {
		return nil, errors.New("consumer: NewRouter: fallback must be a handler, is a nil one")
	}
	return &router{typeOf, maps.Clone(handlers), fallback}, nil
}

type router struct {
	typeOf   func(context.Context, *Message) string
	handlers map[string]Handler
	fallback Handler
}

// maxTypeShown is how many characters of an unknown type an error has.
const maxTypeShown = 100

// Handle calls the handler of the message's type.
func (r *router) Handle(ctx context.Context, m *Message) error {
	name := r.typeOf(ctx, m)
	if h, ok := r.handlers[name]; ok {
		return h.Handle(ctx, m)
	}
	if r.fallback != nil {
		return r.fallback.Handle(ctx, m)
	}
	return Terminal(fmt.Errorf("message %s has type %.*q, which no handler is for", m.ID, maxTypeShown, name))
}

// TypeHeader returns a function for [NewRouter]: the type is the value of the last header of that name, "" without one.
func TypeHeader(name string) func(context.Context, *Message) string {
	return func(_ context.Context, m *Message) string {
		v, _ := m.Header(name)
		return string(v)
	}
}
