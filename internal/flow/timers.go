package flow

import (
	"container/heap"
	"time"
)

// timers are what is to be done at a time.
type timers struct {
	heap []*timer
	made uint64
}

// timer is one thing that is to be done.
type timer struct {
	at   time.Duration
	made uint64 // of two at one time the one that was made first comes first
	do   func(now time.Duration)
	in   int // its place in the heap, +1; 0: it is not in it
}

func (t *timers) add(at time.Duration, do func(now time.Duration)) *timer {
	t.made++
	x := &timer{at: at, made: t.made, do: do}
	heap.Push(t, x)
	return x
}

// remove takes a timer out that is not needed any more; nil, and one that is out, is none.
func (t *timers) remove(x *timer) {
	if x != nil && x.in > 0 {
		heap.Remove(t, x.in-1)
	}
}

// run does what is due, and returns when the next is; never if there is none.
func (t *timers) run(now time.Duration) time.Duration {
	for len(t.heap) > 0 {
		if at := t.heap[0].at; at > now {
			return at
		}
		heap.Pop(t).(*timer).do(now)
	}
	return never
}

// next is when the next one is due; never if there is none.
func (t *timers) next() time.Duration {
	if len(t.heap) == 0 {
		return never
	}
	return t.heap[0].at
}

// Len implements heap.Interface.
func (t *timers) Len() int { return len(t.heap) }

// Less implements heap.Interface.
func (t *timers) Less(i, j int) bool {
	a, b := t.heap[i], t.heap[j]
	return a.at < b.at || a.at == b.at && a.made < b.made
}

// Swap implements heap.Interface.
func (t *timers) Swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.heap[i].in, t.heap[j].in = i+1, j+1
}

// Push implements heap.Interface.
func (t *timers) Push(x any) {
	added := x.(*timer)
	t.heap = append(t.heap, added)
	added.in = len(t.heap)
}

// Pop implements heap.Interface.
func (t *timers) Pop() any {
	last := t.heap[len(t.heap)-1]
	t.heap[len(t.heap)-1] = nil
	t.heap = t.heap[:len(t.heap)-1]
	last.in = 0
	return last
}

// never is a time that does not come.
const never = time.Duration(1<<63 - 1)
