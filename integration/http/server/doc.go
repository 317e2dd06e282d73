// Command server is the process that is killed: it serves three routes behind idempotency/httpkey on one ledger. POST /pay/{id} has its
// effect and its answer in the ledger's transaction; POST /outside/{id} has its effect elsewhere, under its child key; POST /calls/{id}
// makes two outside calls, each of which is a step. It takes its orders from the environment (see package plan), prints its address once
// it is ready, and drains when its standard input ends, so that it never outlives its test.
package main
