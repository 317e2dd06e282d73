// Package zstd unpacks bodies which Zstandard (RFC 8878) has packed: [Body] is middleware, as envelope.Gzip. It is a package of its
// own, since it needs a library that envelope does not; the Kafka client brings the same one.
package zstd
