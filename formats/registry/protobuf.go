package registry

import (
	"context"
	"fmt"
	"strings"

	"github.com/bufbuild/protocompile/parser"
	"github.com/bufbuild/protocompile/reporter"
	"github.com/twmb/franz-go/pkg/sr"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/ackledger/ackledger/consumer"
)

// parseProtobuf parses a schema's file, for the names of its messages. What it imports is not needed for that.
func parseProtobuf(all []text) (*descriptorpb.FileDescriptorProto, error) {
	h := reporter.NewHandler(nil)
	file, err := parser.Parse("schema.proto", strings.NewReader(all[len(all)-1].Schema.Schema), h)
	if err != nil {
		return nil, err
	}
	result, err := parser.ResultFromAST(file, false, h)
	if err != nil {
		return nil, err
	}
	return result.FileDescriptorProto(), nil
}

// messageAt reads the place of a message in its schema's file, and returns the message's full name and its bytes.
func messageAt(id int, e *entry, body []byte) (name string, rest []byte, err error) {
	index, rest, err := (&sr.ConfluentHeader{}).DecodeIndex(body, maxNesting)
	if err != nil {
		return "", nil, consumer.Terminal(fmt.Errorf("registry: schema %d: the message's place in it cannot be read: it must have 1 to %d numbers", id, maxNesting))
	}
	file := e.compiled.(*descriptorpb.FileDescriptorProto)
	name = file.GetPackage()
	messages := file.GetMessageType()
	for _, i := range index {
		if i < 0 || i >= len(messages) {
			return "", nil, consumer.Terminal(fmt.Errorf("registry: schema %d has no message at %v", id, index))
		}
		if name != "" {
			name += "."
		}
		name += messages[i].GetName()
		messages = messages[i].GetNestedType()
	}
	return name, rest, nil
}

// Protobuf returns a handler for messages that were written by a Protobuf schema of r. M is a pointer to a generated type, such as
// *orderpb.Order; the schema must name that message, or the message fails for good. Fields that M does not have are kept as unknown,
// as Protobuf does.
//
// It is nil without r or f, and for an M that is an interface, which workers refuse. f may be called concurrently.
func Protobuf[M proto.Message](r *Registry, f func(context.Context, M) error) consumer.Handler {
	var zero M
	if r == nil || f == nil || any(zero) == nil {
		return nil
	}
	kind := zero.ProtoReflect().Type() // of a nil pointer too
	return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		v := kind.New().Interface()
		if err := r.decodeProtobuf(ctx, m, v); err != nil {
			return of(m, err)
		}
		return f(ctx, v.(M))
	})
}

func (r *Registry) decodeProtobuf(ctx context.Context, m *consumer.Message, v proto.Message) error {
	id, e, rest, err := r.open(ctx, m, sr.TypeProtobuf)
	if err != nil {
		return err
	}
	name, rest, err := messageAt(id, e, rest)
	if err != nil {
		return err
	}
	if want := string(v.ProtoReflect().Descriptor().FullName()); name != want {
		return consumer.Terminal(fmt.Errorf("registry: schema %d: must be message %s, is %s", id, want, name))
	}
	if err := proto.Unmarshal(rest, v); err != nil {
		return consumer.Terminal(fmt.Errorf("registry: schema %d: %d bytes are no message %s", id, len(rest), name))
	}
	return nil
}
