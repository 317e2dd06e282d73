package sqs

import (
	"testing"
)

func TestMessagesAreHandledOnceAndDeleted(t *testing.T) {
	s, b := newSite(t, "", 100), newBook()
	bodies := numbers("m", 250)
	s.send(bodies...)
	r := s.start(b.handle, nil)
	s.empty()
	r.end()
	b.once(t, bodies)
	s.noDead()
}

func TestAGroupKeepsItsOrder(t *testing.T) {
	s, b := newSite(t, ".fifo", 100), newBook()
	var bodies []string
	for _, g := range []string{"a:", "b:", "c:"} {
		bodies = append(bodies, numbers(g, 40)...)
	}
	s.send(bodies...)
	r := s.start(b.handle, nil)
	s.empty()
	r.end()
	b.once(t, bodies)
	b.inOrder(t)
	s.noDead()
}
