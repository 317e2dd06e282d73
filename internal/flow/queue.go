package flow

// queue is a queue that reuses its array.
type queue[T any] struct {
	buf  []T
	head int
}

func (q *queue[T]) len() int { return len(q.buf) - q.head }

func (q *queue[T]) push(v T) {
	if q.head > 64 && q.head*2 >= len(q.buf) {
		n := copy(q.buf, q.buf[q.head:])
		clear(q.buf[n:])
		q.buf, q.head = q.buf[:n], 0
	}
	q.buf = append(q.buf, v)
}

// pushFront puts v before the oldest.
func (q *queue[T]) pushFront(v T) {
	if q.head == 0 {
		q.buf = append(q.buf, v)
		copy(q.buf[1:], q.buf)
		q.buf[0] = v
		return
	}
	q.head--
	q.buf[q.head] = v
}

// pop takes the oldest; the queue must not be empty.
func (q *queue[T]) pop() T {
	var zero T
	v := q.buf[q.head]
	q.buf[q.head] = zero
	q.head++
	if q.head == len(q.buf) {
		q.buf, q.head = q.buf[:0], 0
	}
	return v
}

// filter keeps the elements for which keep is true, in order.
func (q *queue[T]) filter(keep func(T) bool) {
	kept := q.buf[:0]
	for _, v := range q.buf[q.head:] {
		if keep(v) {
			kept = append(kept, v)
		}
	}
	clear(q.buf[len(kept):])
	q.buf, q.head = kept, 0
}
