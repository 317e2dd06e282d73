// Package secure holds tests of how the workers and the command reach servers that want to be reached safely: Apache Kafka
// over TLS and SASL/SCRAM, PostgreSQL over TLS, and PostgreSQL behind PgBouncer. Certificates are made when the tests run.
package secure
