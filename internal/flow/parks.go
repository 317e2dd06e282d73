package flow

import "time"

// How settlements that park leave the ledger to others.
const (
	parkRests    = 9 // so many times as long as a call took is the rest behind it
	parkRestMost = time.Second
)

// parks are settlements that park. One costs the ledger several times what others do, and no handler waits for its place meanwhile. So
// there is one call of them at a time, and behind it a rest, unless nothing else is to be settled.
type parks struct {
	queue   queue[Settlement]
	calling bool
	rest    *timer // nil: there is none
	hurried bool   // no rests until all are settled: the broker has some of it back, or nothing new begins
}
