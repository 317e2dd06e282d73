// Package registry reads messages whose schemas are in a schema registry, in Confluent's wire format: [Avro], [Protobuf] and [JSON] are
// handlers of typed values, [Registry.Schemas] is middleware for topics with messages of several types. The registry's client is
// franz-go's sr. It is a module of its own, so that what it needs comes only to those who use it.
//
//	schemas, err := registry.New(client)
//	if err != nil {
//		panic(err)
//	}
//	type order struct {
//		ID string `avro:"id"`
//	}
//	orders := registry.Avro(schemas, nil, func(_ context.Context, o order) error {
//		fmt.Println("order", o.ID)
//		return nil
//	})
//
// # The format
//
// A body begins with a zero byte and the schema's id in four bytes; Protobuf has the place of the message in the schema's file behind
// it (docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html, "Wire format"). Producers that put the
// id into a header instead are not read: their bodies fail for good by name.
//
// # What fails, and how
//
// A body that is not in the format, or does not fit its schema, fails for good (consumer.Terminal); the error names the schema and the
// place, and quotes nothing of the body. A registry that does not answer, and an id that it does not know, are errors like any other:
// the message is tried again, since a registry may be away, and a follower behind its leader.
//
// A schema is fetched once, with those that it refers to, and kept: ids never change their meaning. The identity of a message, and its
// fingerprint, are those of its bytes.
package registry
