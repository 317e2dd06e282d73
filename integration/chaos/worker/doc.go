// Command worker is the process that storms kill: one worker of Kafka or SQS on one store, with a handler that fails in
// all the ways that its seed says. It takes its orders from the environment (see package plan), runs until SIGTERM, and
// then says what it has left behind: it ends with 0 only after a clean drain, and with 3 if a goroutine or a connection
// is left.
package main
