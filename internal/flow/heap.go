package flow

// waitHeap is a heap of waiting items by due time (container/heap).
type waitHeap []*Item

func (h waitHeap) Len() int           { return len(h) }
func (h waitHeap) Less(i, j int) bool { return h[i].due < h[j].due }

func (h waitHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapAt, h[j].heapAt = int32(i+1), int32(j+1)
}

// Push appends an item; container/heap calls it.
func (h *waitHeap) Push(x any) {
	it := x.(*Item)
	*h = append(*h, it)
	it.heapAt = int32(len(*h))
}

// Pop takes the last item; container/heap calls it.
func (h *waitHeap) Pop() any {
	old := *h
	it := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	it.heapAt = 0
	return it
}
