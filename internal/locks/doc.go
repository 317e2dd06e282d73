// Package locks is the pure core of a share group's worker: it holds which records are in hand and when the broker's locks on them
// end, and decides what to renew, what to accept, what to release, and what to let go of.
//
// A [Table] is told what happened: a record was fetched, it was polled, a handler is about to start, the ledger has finished it, a
// request was answered. Whoever calls it makes the requests; package kafka does so with goroutines, a simulator does without. It
// has no lock, no goroutine, no clock, no chance and no I/O: the time comes in as a parameter, measured from any moment. The same
// calls get the same answers, in the same order.
//
// It is a sibling of package visibility, and smaller: there are no groups, no handles that expire by themselves, and no batches of
// ten. What is its own are requests that fail as a whole for a partition, and deliveries that are counted.
//
// # Files
//
// Each file uses what stands below it:
//
//	plan.go   what to renew next, and what the answers mean
//	table.go  what comes, what may start, what is accepted and let go of
//	holds.go  the records in hand
package locks
