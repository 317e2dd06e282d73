package backoff

import (
	"math"
	"time"
)

// Policy is exponential backoff with full jitter (Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog,
// 2015): the delay before retry n is drawn evenly from zero to min(Max, Base·2^(n-1)).
type Policy struct {
	Base time.Duration // the first retry's largest delay; zero or less counts as 1 ms
	Max  time.Duration // no delay is longer; less than Base counts as Base
}

// Ceiling returns the largest delay before the given retry, counted from 1. A retry below 1 counts as the first.
func (p Policy) Ceiling(retry int) time.Duration {
	base := max(p.Base, time.Millisecond)
	limit := max(p.Max, base)
	d := base
	for range max(retry, 1) - 1 {
		if d >= limit/2+1 {
			return limit
		}
		d *= 2
	}
	return min(d, limit)
}

// Whole returns the most that all delays of so many attempts take together.
func (p Policy) Whole(attempts int) (all time.Duration) {
	for retry := range attempts - 1 {
		d := p.Ceiling(retry + 1)
		if all > math.MaxInt64-d {
			return math.MaxInt64
		}
		all += d
	}
	return all
}

// Delay returns the delay before the given retry for a draw in [0, 1): the caller brings the chance. A draw outside of
// that range counts as the nearer end.
func (p Policy) Delay(retry int, draw float64) time.Duration {
	ceiling := p.Ceiling(retry)
	d := max(draw, 0) * float64(ceiling)
	if !(d < float64(ceiling)) { // a float of the largest duration is one too many for it
		return ceiling
	}
	return time.Duration(d)
}
