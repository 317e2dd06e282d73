// Package offsets tracks which delivered records of one Kafka partition are finished, and says how far its offset may be
// committed: past the finished prefix and no further. It is pure: no I/O, no clock, no lock, the standard library only.
//
// What counts is what was DELIVERED. Offsets have gaps (compaction, aborted transactions, control records that a client
// keeps to itself), so nothing here computes a next offset except one past a record that was delivered and finished.
package offsets
