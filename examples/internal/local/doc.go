// Package local gives the examples a broker when nobody names one: an SQS server or a Kafka cluster in the example's own
// process, with a few messages in it. It holds what is not worth reading in an example, and nothing of what a program of
// yours needs beside its own configuration.
package local
