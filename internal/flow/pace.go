package flow

import "time"

// pace adapts how far claims run ahead of the handlers to how fast the handlers are: about what they finish in a second,
// measured over a tenth of one.
type pace struct {
	begun bool
	since time.Duration
	done  int
	limit int
}

func (p *pace) update(now time.Duration, floor, ceiling int) int {
	if elapsed := now - p.since; !p.begun || elapsed >= 100*time.Millisecond {
		perSecond := 0
		if p.begun {
			perSecond = int(float64(p.done) / elapsed.Seconds())
		}
		p.begun, p.since, p.done, p.limit = true, now, 0, perSecond
	}
	return min(max(p.limit, floor), ceiling)
}
