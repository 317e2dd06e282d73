// Package visibility is the pure core of an SQS worker: it holds which messages are in hand and when their visibility timeouts
// end, and decides what to extend, what to hand back, what to delete, and what to let go of.
//
// A [Table] is told what happened: a message was received, a handler is about to start, the ledger has finished a message, a
// request was answered. Whoever calls it makes the requests; package sqs does so with goroutines, a simulator does without. It
// has no lock, no goroutine, no clock, no chance and no I/O: the time comes in as a parameter, measured from any moment. The same
// calls get the same answers, in the same order.
//
// # Files
//
// Each file uses what stands below it:
//
//	plan.go     what visibility to change next, and what the answers mean
//	table.go    what is received, what may start, what is let go of
//	deletes.go  what to delete next, and what the answers mean
//	holds.go    the messages in hand, and those of each message group
package visibility
