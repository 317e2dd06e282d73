package kafka

import (
	"testing"
)

func TestHandlesAndCommits(t *testing.T) {
	t.Parallel()
	s := fakeSite(t, 3)
	values := numbers("a", 300)
	for p := range int32(3) {
		s.send(p, values[p*100:(p+1)*100]...)
	}
	b := newBook()
	r := s.start(b.handle, nil)
	eventually(t, "all are handled", func() bool { return b.len() == 300 })
	s.caughtUp()
	r.end()
	b.once(t, values)
}
