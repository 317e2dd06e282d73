package flow

import (
	"testing"

	"pgregory.net/rapid"
)

// Against a list: what comes out is the oldest, whatever was filtered out before, and what came out is not kept.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue[*int]
		var book []*int
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if q.len() != len(book) {
					t.Fatalf("length is %d, want %d", q.len(), len(book))
				}
			},
			"push": func(t *rapid.T) {
				for range rapid.IntRange(1, 100).Draw(t, "n") {
					v := new(int)
					q.push(v)
					book = append(book, v)
				}
			},
			"pop": func(t *rapid.T) {
				for range rapid.IntRange(1, 100).Draw(t, "n") {
					if len(book) == 0 {
						return
					}
					if q.pop() != book[0] {
						t.Fatalf("not the oldest")
					}
					book = book[1:]
				}
			},
			"filter": func(t *rapid.T) {
				kept := book[:0:0]
				for i, v := range book {
					*v = i % 3
					if *v != 0 {
						kept = append(kept, v)
					}
				}
				q.filter(func(v *int) bool { return *v != 0 })
				book = kept
			},
		})
		for _, v := range q.buf[:q.head] {
			if v != nil {
				t.Fatalf("a popped element is still held")
			}
		}
	})
}

// What is taken out of a queue or a heap is not kept in memory by it.
func TestQueuesLetGoOfWhatTheyGive(t *testing.T) {
	var h minHeap[*Item]
	h.Push(plainItem("", "a"))
	array := h[:1]
	if h.Pop(); array[0] != nil {
		t.Error("the heap keeps what was taken")
	}
	var q queue[*Item]
	q.push(plainItem("", "a"))
	q.push(plainItem("", "b"))
	buf := q.buf
	if q.pop(); buf[0] != nil {
		t.Error("the queue keeps what was taken")
	}
	q.filter(func(*Item) bool { return false })
	if buf[1] != nil {
		t.Error("the queue keeps what was filtered out")
	}
}
