// Package offsets decides what a Kafka member takes in of its partitions, and how far it may commit: past the finished prefix
// of what was delivered, and no further. It is pure: no I/O, no clock, no lock; the time comes in. Package kafka does the rest.
//
// What counts is what was DELIVERED. Offsets have gaps (compaction, aborted transactions, control records that a client
// keeps to itself), so nothing here computes a next offset except one past a record that was delivered and finished.
//
// # Files
//
// Each file uses what stands below it:
//
//	room.go        which partitions leave the room to the others, and why one is not read
//	table.go       the assignments of the moment: what they take in, have in hand and have finished
//	assignment.go  one term in which a member owns a partition, and what may be committed of it
//	tracker.go     which delivered records of one assignment are finished
package offsets
