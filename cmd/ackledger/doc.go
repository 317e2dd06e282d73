// Command ackledger is for the operators of a ledger:
//
//	ackledger list       dead letters, or messages by their state
//	ackledger show ID    everything about one message
//	ackledger replay     bring dead letters back, each once
//	ackledger reopen     let messages that succeeded run again, on purpose
//	ackledger purge      empty archived dead letters for good
//	ackledger recover    after a restore: let be handled again what brokers have let go of since
//	ackledger stats      how the ledger is doing
//	ackledger workers    which workers there are, and how they do
//	ackledger pause      have workers start nothing until they are resumed
//	ackledger resume     have paused workers go on
//	ackledger doctor     what is wrong with the ledger, queues and topics, and what to do
//	ackledger migrate    make the tables, or bring them to this program's version
//	ackledger maintain   remove what has expired, all the time or once
//	ackledger version    which program this is
//	ackledger completion a script for your shell
//	ackledger man        the manual page
//
// --ledger, or ACKLEDGER_LEDGER in the environment, names the ledger: a Postgres URL or a SQLite file. `ackledger help
// COMMAND` says more.
//
// An error is one line on the standard error. Exit codes: 0 done, 1 failed, 2 wrong usage, nothing was done, 3 partly
// done. Passwords are never printed.
package main
