// Package zstd unpacks bodies which Zstandard (RFC 8878) has packed: [Body] is middleware, as envelope.Gzip.
//
//	handler := consumer.Chain(consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
//		fmt.Printf("%s\n", m.Body)
//		return nil
//	}), zstd.Body(1<<20)) // up to a megabyte
//
// It is a package of its own, since it needs a library that envelope does not; the Kafka client brings the same one.
package zstd
