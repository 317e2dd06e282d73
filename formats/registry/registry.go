package registry

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/ackledger/ackledger/consumer"
)

// Bounds of what is kept and followed.
const (
	// MaxSchemas is how many schemas are kept. When there are more, all are forgotten, and fetched again as they are needed.
	MaxSchemas = 1000
	// MaxReferences is how many other schemas one may refer to, directly and by others.
	MaxReferences = 100
	// maxNesting is how deep a Protobuf message may be nested in others, in the schema's file.
	maxNesting = 32
)

// Registry fetches schemas and keeps them. Build it with [New]; all handlers of a process may share one. Its methods may be called
// concurrently.
type Registry struct {
	client *sr.Client
	known  cache[*entry]
}

// New builds a registry on a client of the caller's: URLs, TLS, logins and time limits are the client's. Nothing is sent before the
// first message.
func New(client *sr.Client) (*Registry, error) {
	if client == nil {
		return nil, errors.New("registry: New: the client must not be nil")
	}
	return &Registry{client: client}, nil
}

// entry is what is known of a schema. One that cannot be used has an error, so that it is not fetched for each message.
type entry struct {
	kind     sr.SchemaType
	compiled any // *avro.Schema, *jsonschema.Schema or *descriptorpb.FileDescriptorProto
	name     string
	err      error
}

// text is a schema with the name under which others refer to it; "": none does.
type text struct {
	name string
	sr.Schema
}

// split returns the id, and what follows it.
func split(body []byte) (id int, rest []byte, err error) {
	if id, rest, err = (&sr.ConfluentHeader{}).DecodeID(body); err != nil {
		return 0, nil, consumer.Terminal(fmt.Errorf("body of %d bytes does not begin with a zero byte and a schema's id", len(body)))
	}
	return id, rest, nil
}

// schema returns what is known of the schema of that id.
func (r *Registry) schema(ctx context.Context, id int) (*entry, error) {
	e, ok := r.known.get(id)
	if !ok {
		root, err := r.client.SchemaByID(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("registry: schema %d: %w", id, err)
		}
		all, err := r.references(ctx, root.References, nil, map[sr.SchemaReference]bool{})
		if err != nil {
			return nil, fmt.Errorf("registry: schema %d: %w", id, err)
		}
		e = compile(append(all, text{Schema: root}))
		r.known.put(id, e)
	}
	if e.err != nil {
		return nil, consumer.Terminal(fmt.Errorf("registry: schema %d (%s): %w", id, e.kind, e.err))
	}
	return e, nil
}

// references appends what a schema refers to, each behind what it refers to itself.
func (r *Registry) references(ctx context.Context, refs []sr.SchemaReference, all []text, seen map[sr.SchemaReference]bool) ([]text, error) {
	for _, ref := range refs {
		if seen[ref] {
			continue
		}
		if seen[ref] = true; len(seen) > MaxReferences {
			return nil, fmt.Errorf("refers to more than %d others", MaxReferences)
		}
		s, err := r.client.SchemaByVersion(ctx, ref.Subject, ref.Version)
		if err != nil {
			return nil, fmt.Errorf("reference to version %d of %q: %w", ref.Version, ref.Subject, err)
		}
		if all, err = r.references(ctx, s.References, all, seen); err != nil {
			return nil, err
		}
		all = append(all, text{name: ref.Name, Schema: s.Schema})
	}
	return all, nil
}

func compile(all []text) *entry {
	e := &entry{kind: all[len(all)-1].Type}
	switch e.kind {
	case sr.TypeAvro:
		e.compiled, e.name, e.err = compileAvro(all)
	case sr.TypeProtobuf:
		e.compiled, e.err = parseProtobuf(all)
	case sr.TypeJSON:
		e.compiled, e.name, e.err = compileJSON(all)
	default:
		e.err = errors.New("is of a type that nobody here reads")
	}
	return e
}

// open reads a message's header, and returns its schema, which must be of that type.
func (r *Registry) open(ctx context.Context, m *consumer.Message, want sr.SchemaType) (id int, e *entry, rest []byte, err error) {
	if id, rest, err = split(m.Body); err != nil {
		return 0, nil, nil, err
	}
	if e, err = r.schema(ctx, id); err != nil {
		return 0, nil, nil, err
	}
	if e.kind != want {
		return 0, nil, nil, consumer.Terminal(fmt.Errorf("registry: schema %d: must be %s, is %s", id, want, e.kind))
	}
	return id, e, rest, nil
}

// of names the message; a terminal error stays one.
func of(m *consumer.Message, err error) error { return fmt.Errorf("message %s: %w", m.ID, err) }

// Schema is what [Registry.Schemas] has found of a message.
type Schema struct {
	// ID is the registry's.
	ID int
	// Type is sr.TypeAvro, sr.TypeProtobuf or sr.TypeJSON.
	Type sr.SchemaType
	// Name is the full name of the Avro type (empty for an unnamed one) or of the Protobuf message, or the "title" of a JSON Schema.
	Name string
}

// Schemas is middleware that finds out what a message is, for topics with several types: [From] returns it, and [Type] is for
// consumer.NewRouter. The body stays as it is. A nil next gives nil.
func (r *Registry) Schemas(next consumer.Handler) consumer.Handler {
	if next == nil {
		return nil
	}
	return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		s, err := r.find(ctx, m)
		if err != nil {
			return of(m, err)
		}
		return next.Handle(context.WithValue(ctx, schemaKey{}, s), m)
	})
}

func (r *Registry) find(ctx context.Context, m *consumer.Message) (Schema, error) {
	id, rest, err := split(m.Body)
	if err != nil {
		return Schema{}, err
	}
	e, err := r.schema(ctx, id)
	if err != nil {
		return Schema{}, err
	}
	s := Schema{ID: id, Type: e.kind, Name: e.name}
	if e.kind == sr.TypeProtobuf {
		if s.Name, _, err = messageAt(id, e, rest); err != nil {
			return Schema{}, err
		}
	}
	return s, nil
}

type schemaKey struct{}

// From returns what [Registry.Schemas] has found; the zero Schema elsewhere.
func From(ctx context.Context) Schema {
	s, _ := ctx.Value(schemaKey{}).(Schema)
	return s
}

// Type is for consumer.NewRouter behind [Registry.Schemas]: the schema's name.
func Type(ctx context.Context, _ *consumer.Message) string { return From(ctx).Name }

// cache keeps something for each schema's id, up to MaxSchemas. The zero cache is ready.
type cache[V any] struct {
	mu sync.RWMutex
	m  map[int]V
}

func (c *cache[V]) get(id int) (V, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	v, ok := c.m[id]
	return v, ok
}

func (c *cache[V]) put(id int, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= MaxSchemas {
		c.m = map[int]V{}
	}
	c.m[id] = v
}
