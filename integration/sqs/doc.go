// Package sqs holds tests of how Amazon SQS behaves: one table of cases that runs
// against the in-process server sqs/sqstest, against ElasticMQ, and, with
// ACKLEDGER_TEST_SQS=aws, against a real account (the SDK's default
// configuration; it needs the rights to create, use and delete queues whose names
// begin with t_).
//
// Every case quotes what AWS documents, and where. A server that does something
// else is named beside the case, with what it does, and the case asserts that as
// well: when a server changes, the table is corrected.
//
// The package has no code but its tests.
package sqs
