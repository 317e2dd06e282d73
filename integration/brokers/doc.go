// Package brokers holds the conformance suite of the workers: one list of cases that the SQS worker and the Kafka worker
// both pass, each against its server in process and against a real one.
package brokers
