package ranges

import (
	"testing"
	"time"
)

// A log's first offset is in force an hour after it was noted, whatever is noted meanwhile.
func TestStartComesIntoForce(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var s Start
	for _, step := range []struct {
		after       time.Duration
		first       int64
		noted       bool
		then, below int64
	}{
		{0, 0, false, 0, 0},
		{0, 10, true, 10, 0},
		{TrimAfter, 20, false, 10, 0},
		{TrimAfter + 1, 5, false, 10, 10},
		{TrimAfter + 1, 20, true, 20, 10},
		{2 * TrimAfter, 30, false, 20, 10},
		{3 * TrimAfter, 20, false, 20, 20},
		{3 * TrimAfter, 31, true, 31, 20},
	} {
		now := at.Add(step.after)
		if noted := s.Note(step.first, now); noted != step.noted || s.First != step.then || s.Below(now) != step.below {
			t.Errorf("%s, first offset %d: noted %t; %+v, below %d", step.after, step.first, noted, s, s.Below(now))
		}
	}
}

func TestSegmentAbove(t *testing.T) {
	for _, c := range []struct{ from, to, messages, low, want int64 }{
		{0, 100, 100, 40, 60}, {0, 100, 50, 40, 30}, {7, 10, 1, 9, 0}, {0, 1 << 52, 1 << 52, 1<<52 - 3, 3},
	} {
		s := Segment{Span: Span{c.from, c.to}, Messages: c.messages}.Above(c.low)
		if s.From != c.low || s.To != c.to || s.Messages != c.want {
			t.Errorf("%+v: %+v", c, s)
		}
	}
}
