// Package outbox holds the storm of the outbox: workers as child processes that publish inside of InTx and relay, on PostgreSQL, Kafka and
// ElasticMQ. They are killed with SIGKILL, now and then between a broker's answer and the report to the outbox. In the end nothing is lost,
// nothing is there without its commit, each key is in its order, and a consumer of this module has each message once.
package outbox
