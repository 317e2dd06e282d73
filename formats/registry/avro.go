package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/ackledger/ackledger/consumer"
)

// compileAvro parses a schema behind those that it refers to.
func compileAvro(all []text) (s *avro.Schema, name string, err error) {
	var named avro.SchemaCache
	for _, t := range all {
		if s, err = named.Parse(t.Schema.Schema); err != nil {
			return nil, "", err
		}
	}
	root := s.Root()
	if name = root.Name; name != "" && root.Namespace != "" {
		name = root.Namespace + "." + name
	}
	return s, name, nil
}

// Avro returns a handler for messages that were written by an Avro schema of r. They are decoded into a T, whose fields have the tag
// `avro:"name"`. With a reader's schema (avro.Parse, avro.SchemaFor) values are made to fit it by Avro's rules of resolution: defaults,
// aliases, wider numbers; without one (nil) T must fit what the writer wrote.
//
// It is nil without r or f, which workers refuse. f may be called concurrently.
func Avro[T any](r *Registry, reader *avro.Schema, f func(context.Context, T) error) consumer.Handler {
	if r == nil || f == nil {
		return nil
	}
	a := &avroReader{r: r, reader: reader}
	return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		var v T
		if err := a.decode(ctx, m, &v); err != nil {
			return of(m, err)
		}
		return f(ctx, v)
	})
}

type avroReader struct {
	r        *Registry
	reader   *avro.Schema
	resolved cache[*avro.Schema]
}

func (a *avroReader) decode(ctx context.Context, m *consumer.Message, v any) error {
	id, e, rest, err := a.r.open(ctx, m, sr.TypeAvro)
	if err != nil {
		return err
	}
	s, err := a.resolve(id, e.compiled.(*avro.Schema))
	if err != nil {
		return consumer.Terminal(fmt.Errorf("registry: schema %d does not fit the reader's: %w", id, err))
	}
	left, err := s.Decode(rest, v)
	if err != nil {
		return consumer.Terminal(fmt.Errorf("registry: %d bytes do not fit schema %d: %s", len(rest), id, describeAvro(err)))
	}
	if len(left) > 0 {
		return consumer.Terminal(fmt.Errorf("registry: schema %d: %d of %d bytes are left behind the value", id, len(left), len(rest)))
	}
	return nil
}

func (a *avroReader) resolve(id int, writer *avro.Schema) (*avro.Schema, error) {
	if a.reader == nil {
		return writer, nil
	}
	if s, ok := a.resolved.get(id); ok {
		return s, nil
	}
	s, err := avro.Resolve(writer, a.reader)
	if err == nil {
		a.resolved.put(id, s)
	}
	return s, err
}

// describeAvro says what is wrong, without what stands in the body.
func describeAvro(err error) string {
	if short, ok := errors.AsType[*avro.ShortBufferError](err); ok {
		return short.Error()
	}
	if s, ok := errors.AsType[*avro.SemanticError](err); ok {
		return fmt.Sprintf("field %.200q of Avro type %s does not fit Go type %v", s.Field, s.AvroType, s.GoType)
	}
	return fmt.Sprintf("(%T)", err)
}
