package flow

import (
	"container/heap"
	"time"
)

// timers are what is to be done at a time.
type timers struct {
	heap minHeap[*timer]
	made uint64
}

// timer is one thing that is to be done.
type timer struct {
	at   time.Duration
	made uint64 // of two at one time the one that was made first comes first
	do   func(now time.Duration)
	in   int32
}

func (t *timers) add(at time.Duration, do func(now time.Duration)) *timer {
	t.made++
	x := &timer{at: at, made: t.made, do: do}
	heap.Push(&t.heap, x)
	return x
}

// remove takes a timer out that is not needed any more; nil, and one that is out, is none.
func (t *timers) remove(x *timer) {
	if x != nil {
		t.heap.remove(x)
	}
}

// run does what is due.
func (t *timers) run(now time.Duration) {
	for len(t.heap) > 0 && t.heap[0].at <= now {
		heap.Pop(&t.heap).(*timer).do(now)
	}
}

// next is when the next one is due; never if there is none.
func (t *timers) next() time.Duration {
	if len(t.heap) == 0 {
		return never
	}
	return t.heap[0].at
}

var _ heaped[*timer] = (*timer)(nil)

func (t *timer) before(o *timer) bool { return t.at < o.at || t.at == o.at && t.made < o.made }
func (t *timer) place() *int32        { return &t.in }

// never is a time that does not come.
const never = time.Duration(1<<63 - 1)
