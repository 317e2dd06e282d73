// Package slots is the pure rule by which several workers share handler slots: strict levels with a bound on how long one is passed over,
// and weights within a level.
//
// A [Rule] is told who asks for a slot, who waits no more, and that a slot comes back; it says who has one. Whoever calls it keeps the
// waiting goroutines; package consumer does so behind a lock. It has no lock, no clock, no chance and no I/O.
package slots
