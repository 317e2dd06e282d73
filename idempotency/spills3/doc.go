// Package spills3 keeps results that are too large for the ledger in a bucket of Amazon S3: an idempotency.Spill. It is a module of its
// own, so that S3's client comes only to those who use it.
//
//	spill, err := spills3.New(client, spills3.Config{Bucket: "answers", Prefix: "spilled/", Days: 2})
//	if err != nil {
//		panic(err)
//	}
//	runner, err := idempotency.New(memory.New(), idempotency.Options{Spill: spill})
//
// A result is one object, written once and never changed. What has expired is the bucket's matter: give it a lifecycle rule for the
// prefix (docs.aws.amazon.com/AmazonS3/latest/userguide/object-lifecycle-mgmt.html), and say its days in [Config], so that no result is put
// there that would go before its request does. A rule's days are whole ones, an hour more than the longest window at least.
package spills3
