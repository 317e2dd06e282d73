// Package dynamodb keeps a ledger in a table of Amazon DynamoDB, for workers that have no PostgreSQL beside their queue.
//
// [Migrate] makes the table, [New] returns the ledger, and [InTx] commits a handler's own writes together with its message's
// success.
//
// # How it holds its promises without a server's clock
//
// Every write is on the condition that the item is as it was read: each item has a version that is drawn anew with each
// write. An owner is an item with a beat that grows. It is declared dead by a peer that has seen one beat for the owner's lease
// and a margin of its OWN monotonic clock, on the condition that the beat is still that one and the owner lives: one item
// decides between the two. So no two clocks are ever compared; it is assumed that they run at the same rate, to within
// [driver.ClockDrift] on each side. Amazon's DynamoDB lock client and the lease table of the Kinesis client library do the same.
//
// An owner counts its lease from before it sent the beat that was confirmed, and stops when it is over. What it had sent
// before may still arrive. It is harmless: onto a row that somebody took since nothing is written, since the version has
// changed; onto one that nobody took, a settlement says what did happen, and a claim leaves the row to a dead owner, from whom
// whoever comes next takes it.
//
// Windows, delays and expiries go by the machine's clock, set right by the Date of the service's answers. Nothing hangs on
// them but when something is tried again, and how long it is remembered.
//
// # What differs from other stores
//
// Reads of several rows are each of its own moment. Lists of messages scan the table, so they cost what the table is large;
// dead letters have an index, which is a moment behind. Rows that are finished go by TTL, hours or days after their window,
// and are recognised until then. Counts of messages are as of the last sweep.
//
// It was tested on a server that speaks its protocol (Dynoxide), with faults on the way to it. It has not run on AWS.
package dynamodb
