package flow

import (
	"math/rand/v2"
	"testing"
	"time"
)

// dumbPace remembers when handlers ended, and counts them anew each time.
type dumbPace struct {
	ends  []time.Duration
	since time.Duration
	begun bool
	rate  int
}

func (d *dumbPace) update(now time.Duration, floor, ceiling int) int {
	if !d.begun || now-d.since >= 100*time.Millisecond {
		d.rate = 0
		if d.begun {
			d.rate = int(float64(len(d.ends)) / (now - d.since).Seconds())
		}
		d.begun, d.since, d.ends = true, now, nil
	}
	return min(max(d.rate, floor), ceiling)
}

// How far claims run ahead, against one that counts ends:
//   - it is what handlers finished in a second, measured over a tenth of one at least, within its bounds;
//   - until it is measured the first time it is as little as may be, whatever was finished before, and at whatever time;
//   - it is never below the floor or above the ceiling; a ceiling below the floor counts;
//   - between two measurements it stays;
//   - if more is finished at the same times, it is no less.
func TestPaceAgainstACount(t *testing.T) {
	t.Parallel()
	atFloor, atCeiling, between := 0, 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 29))
		floor, ceiling := 1+r.IntN(40), 1+r.IntN(2000)
		now := time.Duration(r.Int64N(int64(time.Hour)))
		var p, faster pace
		var twin dumbPace
		for range 500 {
			n := r.IntN(1 + r.IntN(60))
			p.done, faster.done = p.done+n, faster.done+n+r.IntN(3)
			for range n {
				twin.ends = append(twin.ends, now)
			}
			now += time.Duration(r.IntN(7)) * 10 * time.Millisecond
			if r.IntN(40) == 0 {
				now += time.Duration(r.Int64N(int64(time.Minute)))
			}
			if r.IntN(3) == 0 {
				continue
			}
			got, want := p.update(now, floor, ceiling), twin.update(now, floor, ceiling)
			if got != want {
				t.Fatalf("seed %d: %d ahead, want %d", seed, got, want)
			}
			low := min(floor, ceiling)
			if got < low || got > ceiling {
				t.Fatalf("seed %d: %d ahead, want %d to %d", seed, got, low, ceiling)
			}
			if more := faster.update(now, floor, ceiling); more < got {
				t.Fatalf("seed %d: %d ahead, and %d where more was finished", seed, got, more)
			}
			if soon := now + time.Millisecond; soon-p.since < 100*time.Millisecond && p.update(soon, floor, ceiling) != got {
				t.Fatalf("seed %d: %d ahead, and a moment later it is another number", seed, got)
			}
			switch got {
			case low:
				atFloor++
			case ceiling:
				atCeiling++
			default:
				between++
			}
		}
	}
	if min(atFloor, atCeiling, between) < 1000 {
		t.Errorf("%d at the floor, %d at the ceiling, %d between: too little happened", atFloor, atCeiling, between)
	}
}
