// Program replay is what `make demo-replay` runs: dead letters, and how they come back, each once.
//
// 500 orders go to an SQS queue and a Kafka topic. A bug makes all of them fail; they end in a dead-letter queue and a
// dead-letter topic. The bug is mended, and a colleague puts 37 of them back by hand, which succeed. Then everything is
// replayed, from the dead-letter queue, from the dead-letter topic, and once more to see that nothing is left. The table of
// charges, which has no unique constraint, must have each order once; otherwise the program ends with 1.
//
// The brokers are in the program's own process, the ledger is a SQLite file: nothing else is needed. With -command, the
// replays are done by the command ackledger, as an operator would; else by the function behind it.
package main
