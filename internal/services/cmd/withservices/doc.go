// Command withservices starts PostgreSQL 18 and 14, Apache Kafka, ElasticMQ and Dynoxide once, names them in the
// environment, runs a command, stops them, and exits as the command did:
//
//	withservices -- go test ./...
//	withservices -only kafka,sqs -- sh -c 'echo $ACKLEDGER_TEST_KAFKA; go run ./my-worker'
//
// go test runs each package in a process of its own; without this command each would start servers of its own. Servers
// that the environment names already are used as they are.
package main
