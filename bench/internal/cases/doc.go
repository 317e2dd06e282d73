// Package cases holds the rows of the benchmark, one file a subject, and the goals that they are compared with.
//
// A new row is one suite.Case in its file's list; a new file adds its list to All. Servers, fresh schemas, topics and
// queues come from postgres.go, kafka.go and sqs.go: each run gets names of its own and leaves nothing behind.
//
// Only the public interfaces of ackledger are used, as a user's program would.
package cases
