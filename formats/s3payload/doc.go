// Package s3payload reads messages of up to 2 GiB whose bodies are in S3, as the extended client libraries of Amazon SQS and SNS put them
// there (github.com/awslabs/amazon-sqs-java-extended-client-lib, amazon-sqs-python-extended-client-lib): the message is a pointer to
// an object, and its attribute ExtendedPayloadSize, once SQSLargePayloadSize, has the body's length. A message without the attribute has
// its body in itself, and is handled alike. It is a module of its own, so that S3's client comes only to those who use it.
//
//	store, err := s3payload.New(client, s3payload.Config{Buckets: []string{"payloads"}})
//	if err != nil {
//		panic(err)
//	}
//	handler := store.Handler(func(_ context.Context, _ *consumer.Message, body io.Reader) error {
//		_, err := io.Copy(os.Stdout, body)
//		return err
//	})
//
// [Store.Handler] hands the body to a function as it comes from S3, so that none is in memory as a whole; [Store.Bytes] reads it into
// memory for those who ask for it, up to a limit.
//
// # Whose objects
//
// The message says where its body is. Whoever may send to the queue could name any object that the worker may read, so [Config] lists the
// buckets; a pointer to another one fails for good.
//
// Objects are never deleted here: the archive and a dead letter hold the pointer, and a replay needs the body. Give the bucket a
// lifecycle rule that keeps objects longer than Options.Keep. What the archive of a failed message has is the pointer: the promise that a
// failed message is kept whole is as good as that rule.
//
// # Identity
//
// SQS delivers the same pointer again, so nothing needs to be set for that. Options.KeyFunc is another matter: a producer that sends an
// event again puts the same body into another object, and the pointers differ. [Store.Fingerprint] is for Options.FingerprintFunc then: the
// SHA-256 of the body, wherever that is. It gets it, the cheapest way first:
//
//   - from the message's attribute Config.Digest, if producers set one. Nothing is asked of S3; the handler's body is checked by it.
//   - from the object's own checksum, if the producer uploads with SHA-256 in one part: a HeadObject.
//   - by reading the object. The worker polls no further message meanwhile.
//
// An ETag is not used, nor a CRC: they depend on how an object was uploaded, so equal bodies may have different ones. A fingerprint that
// cannot be had within Config.Timeout fails the message for good, as Options.FingerprintFunc does; so where S3 may be away, use Config.Digest.
package s3payload
