package ranges

import (
	"math"
	"time"
)

// Start is where a log begins, as workers have found it. A broker drops what lies below for good: a log's first offset only
// grows, so nothing below can be delivered again but to a worker that has fetched it already.
type Start struct {
	Low   int64     // noted [TrimAfter] ago, at least
	First int64     // noted at At, above Low
	At    time.Time // zero: never
}

// Note takes a log's first offset over, but not before the one that was noted last is in force. It says whether there is
// anything to write.
func (s *Start) Note(first int64, now time.Time) bool {
	if first <= s.First || now.Sub(s.At) <= TrimAfter {
		return false
	}
	s.Low, s.First, s.At = s.First, first, now
	return true
}

// Below is the offset up to which finished segments may be cut off: the log has begun there for [TrimAfter], so nobody has
// anything below in hand.
func (s *Start) Below(now time.Time) int64 {
	if now.Sub(s.At) > TrimAfter {
		return s.First
	}
	return s.Low
}

// Above is what is left of a segment that is cut off below an offset inside of it. What was never delivered counts as
// spread evenly.
func (s Segment) Above(low int64) Segment {
	all := s.Len()
	s.From = low
	s.Messages = min(int64(math.Round(float64(s.Messages)*(float64(s.Len())/float64(all)))), s.Len())
	return s
}
