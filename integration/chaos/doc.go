// Package chaos holds storms: worker processes on a real Kafka, ElasticMQ, PostgreSQL and SQLite, under faults of
// processes, networks, servers, disks and handlers that are drawn from a seed. An oracle knows every message sent; effects
// are counted in a table without a unique constraint.
//
//	make chaos DURATION=30m SEED=1
//
// runs one for as long as that and writes its totals to docs/reliability.md. `make test` has a short one.
//
// # Parts
//
// Package plan is what a test and its workers agree on: orders, what becomes of each message (drawn from the seed), and
// a page of memory that outlives a killed process, in which it counts its handlers. The program worker is the process
// that is killed; it is built with the tag killpoints (see internal/killpoint), and for a part of the processes with a
// package time whose clock is off. Here, in the tests, are: crew (processes), network (proxies), arm (one broker, store
// and group with its oracle), storm (the faults), and the scenarios that need a cluster or a disk of their own.
//
// # What counts as a fault
//
// A fault of a process or of its network counts only if a handler of that process was running at that moment, which its
// page says also after its death; one of a server, if one of all its clients was. Faults of handlers count when the
// handler brings them about. A clock that is off counts for each process that has begun a handler with it.
//
// # What is checked
//
// While a storm runs: committed offsets (read first) are never ahead of what the ledger and the effects say is terminal.
// At its end, when everything is well again: each message has its effect exactly once, or is in the archive if it was to
// end there; no claim had the token of another process' claim, and no attempt with a higher token than that of the
// effect; no outside call was made again that is recorded as a step; order inside groups and keys; dead letters that are
// marked as sent are there; attempts and crashes are bounded; drained workers leave no goroutine and no connection; memory
// is bounded.
package chaos
