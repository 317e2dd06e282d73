package consumer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Handler does the work of one message.
//
// Returning nil means that the work is done for good: the message is settled as succeeded and acknowledged. Any error
// means another attempt after a backoff, up to Options.Attempts; [Terminal] and [RetryAfter] say otherwise. A panic and
// runtime.Goexit are failed attempts too.
//
// Handle is called concurrently, up to Options.Concurrency. Its context is cancelled when the lease is lost
// (context.Cause is then ledger.ErrLost), when Options.HandlerTimeout has passed ([ErrTimeout]), when the partition was
// revoked ([ErrRevoked]) and when the drain's time is up ([ErrShutdown]); a handler that ignores that is reported in
// Health.
type Handler interface {
	Handle(ctx context.Context, m *Message) error
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(context.Context, *Message) error

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, m *Message) error { return f(ctx, m) }

// Middleware wraps a handler, for what is the same around many handlers (timing, tenancy, tracing of one's own).
type Middleware func(Handler) Handler

// Chain wraps h in the given middleware; the first is outermost. A nil one is left out.
func Chain(h Handler, mw ...Middleware) Handler {
	for i := len(mw) - 1; i >= 0; i-- {
		if mw[i] != nil {
			h = mw[i](h)
		}
	}
	return h
}

// maxDepth bounds the nesting of a JSON body, so that a hostile one costs no stack.
const maxDepth = 1000

// JSON returns a handler for messages whose body is one JSON value of type T. A body that is not, is followed by
// something else, or is nested deeper than 1,000 levels, fails for good ([Terminal]) with the position and never the
// body's text. Unknown fields are ignored. The message itself is at hand through [MessageFrom].
//
// A nil f gives a nil Handler, which workers refuse.
func JSON[T any](f func(context.Context, T) error) Handler {
	if f == nil {
		return nil
	}
	return HandlerFunc(func(ctx context.Context, m *Message) error {
		var v T
		if err := DecodeJSON(m.Body, &v); err != nil {
			return Terminal(fmt.Errorf("body of message %s: %w", m.ID, err))
		}
		return f(ctx, v)
	})
}

// DecodeJSON decodes a body that is one JSON value into what v points to, with the limits and the errors of [JSON], which are
// not terminal yet. It is for handlers of batches, and for decoders of one's own. It may be called concurrently.
func DecodeJSON(body []byte, v any) error {
	if at, ok := tooDeep(body); ok {
		return fmt.Errorf("JSON nested deeper than %d levels at byte %d", maxDepth, at)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(v); err != nil {
		return describeJSON(err, d.InputOffset(), len(body))
	}
	end := d.InputOffset()
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("more than one JSON value: the first ends at byte %d of %d", end, len(body))
	}
	return nil
}

// describeJSON says where and why, without quoting the body.
func describeJSON(err error, offset int64, size int) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("not JSON at byte %d of %d", syntax.Offset, size)
	}
	if typ, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("JSON at byte %d of %d: field %q does not fit type %s", typ.Offset, size, typ.Field, typ.Type)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("JSON ends too early at byte %d", size)
	}
	return &valueError{offset: offset, size: size, err: err}
}

// valueError is an error of a type's own decoding, such as time.Time's. Its text may quote the body, so it is not shown.
type valueError struct {
	offset int64
	size   int
	err    error
}

func (e *valueError) Error() string {
	return fmt.Sprintf("JSON before byte %d of %d: a value does not fit its type (%T)", e.offset, e.size, e.err)
}
func (e *valueError) Unwrap() error { return e.err }

// tooDeep finds the byte at which the nesting passes maxDepth. Strings are skipped; whether the rest is JSON is the
// decoder's business.
func tooDeep(body []byte) (at int, deep bool) {
	depth, inString := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return i, true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return 0, false
}
