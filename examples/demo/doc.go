// Command demo runs an order-payment pipeline and proves, from its own records, that every order was charged exactly
// once. It needs nothing but Go: the queue (sqs/sqstest) and the Kafka cluster (kfake) run in this process, the ledger
// is a SQLite file in a temporary folder.
//
// A producer sends orders to both brokers, some of them twice, some that fail at first and a few that are not JSON. The
// worker is a process of its own, which this one kills with SIGKILL again and again and starts anew. Its handler charges
// in the transaction that sqlite.InTx hands to it, into a table WITHOUT a unique constraint: a double would be seen. The
// exit code is 1 if an order is missing from that table or charged twice.
//
// With WEB=1 in the environment the ledger's page is there for a browser meanwhile, and afterwards until Ctrl-C.
//
// Files: orders.go is what is sent, brokers.go where to, worker.go the process that is killed, events.go what it tells
// its parent, pipeline.go the parent's loop, audit.go the proof, progress.go what is seen meanwhile, page.go in a browser.
package main
