package sqstest

import (
	"container/heap"
	"time"
)

// timeline is a heap of messages by one of their times, from which a message
// can be taken out wherever it is.
type timeline struct {
	items []*message
	at    func(*message) time.Time
	index func(*message) *int // position + 1 in items; 0: not held
}

func (t *timeline) Len() int           { return len(t.items) }
func (t *timeline) Less(i, j int) bool { return t.at(t.items[i]).Before(t.at(t.items[j])) }
func (t *timeline) Swap(i, j int) {
	t.items[i], t.items[j] = t.items[j], t.items[i]
	*t.index(t.items[i]), *t.index(t.items[j]) = i+1, j+1
}
func (t *timeline) Push(x any) {
	m := x.(*message)
	t.items = append(t.items, m)
	*t.index(m) = len(t.items)
}
func (t *timeline) Pop() any {
	last := len(t.items) - 1
	m := t.items[last]
	t.items[last] = nil
	t.items = t.items[:last]
	*t.index(m) = 0
	return m
}

func (t *timeline) add(m *message) { heap.Push(t, m) }

func (t *timeline) remove(m *message) {
	if i := *t.index(m); i > 0 {
		heap.Remove(t, i-1)
	}
}

// first is the earliest message and its time; nil when empty.
func (t *timeline) first() (*message, time.Time) {
	if len(t.items) == 0 {
		return nil, time.Time{}
	}
	return t.items[0], t.at(t.items[0])
}

// chain is a doubly linked list of messages. A message is on one chain at most.
type chain struct{ head, tail *message }

func (c *chain) push(m *message) {
	m.on, m.prev, m.next = c, c.tail, nil
	if c.tail == nil {
		c.head = m
	} else {
		c.tail.next = m
	}
	c.tail = m
}

func (c *chain) remove(m *message) {
	if m.on != c {
		return
	}
	if m.prev == nil {
		c.head = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next == nil {
		c.tail = m.prev
	} else {
		m.next.prev = m.prev
	}
	m.on, m.prev, m.next = nil, nil, nil
}
