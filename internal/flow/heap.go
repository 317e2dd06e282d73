package flow

import "container/heap"

// heaped is an element of a heap that knows where it is in it.
type heaped[E any] interface {
	before(E) bool
	place() *int32 // index in the heap, +1; 0: it is not in it
}

// minHeap is a heap; package container/heap uses it.
type minHeap[E heaped[E]] []E

// remove takes an element out; one that is out already is none.
func (h *minHeap[E]) remove(e E) {
	if at := *e.place(); at > 0 {
		heap.Remove(h, int(at-1))
	}
}

// Len implements heap.Interface.
func (h minHeap[E]) Len() int { return len(h) }

// Less implements heap.Interface.
func (h minHeap[E]) Less(i, j int) bool { return h[i].before(h[j]) }

// Swap implements heap.Interface.
func (h minHeap[E]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].place(), *h[j].place() = int32(i+1), int32(j+1)
}

// Push implements heap.Interface.
func (h *minHeap[E]) Push(x any) {
	e := x.(E)
	*h = append(*h, e)
	*e.place() = int32(len(*h))
}

// Pop implements heap.Interface.
func (h *minHeap[E]) Pop() any {
	old, last := *h, len(*h)-1
	e := old[last]
	clear(old[last:])
	*h = old[:last]
	*e.place() = 0
	return e
}
