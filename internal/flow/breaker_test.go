package flow

import (
	"math/rand/v2"
	"testing"
	"time"
)

// dumbBreaker remembers everything and decides from that.
type dumbBreaker struct {
	failures, percent int
	now               time.Duration // the latest time
	ends              []dumbEnd
	open              bool
	until             time.Duration
	fails             int // pauses in a row, over all that is not calm
	closed            time.Duration
	row               int
}

type dumbEnd struct {
	at        time.Duration
	good, bad int
}

func (d *dumbBreaker) handled(now time.Duration, good, bad int) bool {
	if d.open || d.failures == 0 {
		return false
	}
	d.now = max(d.now, now)
	d.ends = append(d.ends, dumbEnd{d.now, good, bad})
	g, b := 0, 0
	for _, e := range d.ends {
		if e.at/time.Second > d.now/time.Second-60 {
			g, b = g+e.good, b+e.bad
		}
	}
	if bad == 0 || b <= d.failures || float64(b)/float64(g+b) <= float64(d.percent)/100 {
		return false
	}
	if now-d.closed >= 10*time.Minute {
		d.fails = 0
	}
	d.open, d.row = true, 0
	d.wait(now)
	return true
}

func (d *dumbBreaker) wait(now time.Duration) {
	d.fails++
	d.until = now + time.Minute
	if d.fails < 7 {
		d.until = now + time.Second<<(d.fails-1)
	}
}

func (d *dumbBreaker) tried(now time.Duration, good bool) bool {
	if !d.open {
		return false
	}
	if !good {
		d.row = 0
		d.wait(now)
		return false
	}
	d.row++
	if d.row == 5 {
		d.open, d.closed, d.ends = false, now, nil
		return true
	}
	return false
}

// Against one that remembers everything: whatever comes, in whatever steps of the clock, back too.
func TestBreakerDoesWhatADumbOneDoes(t *testing.T) {
	t.Parallel()
	opened, closed, longest := 0, 0, time.Duration(0)
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 131))
		failures, percent := r.IntN(20), 1+r.IntN(99)
		b := breaker{failures: failures, percent: percent}
		d := dumbBreaker{failures: failures, percent: percent}
		now := time.Duration(r.Int64N(int64(time.Hour)))
		ill := true
		for step := range 3000 {
			switch r.IntN(12) {
			case 0:
				now += time.Duration(r.Int64N(int64(2 * time.Minute)))
			case 1:
				now = max(now-time.Duration(r.Int64N(int64(2*time.Second))), 0)
			case 2:
				if step%20 == 0 {
					now += time.Hour
				}
			default:
				now += time.Duration(r.Int64N(int64(time.Second)))
			}
			if r.IntN(50) == 0 {
				ill = !ill
			}
			good, bad := r.IntN(4), r.IntN(2)
			if ill {
				good, bad = bad, good
			}
			if got, want := b.handled(now, good, bad), d.handled(now, good, bad); got != want {
				t.Fatalf("seed %d step %d: handled %v, want %v", seed, step, got, want)
			} else if got {
				opened++
			}
			if got, want := b.mayTry(now), d.open && now >= d.until; got != want {
				t.Fatalf("seed %d step %d: may try %v, want %v", seed, step, got, want)
			} else if got || r.IntN(10) == 0 {
				ok := good > bad
				if got, want := b.tried(now, ok), d.tried(now, ok); got != want {
					t.Fatalf("seed %d step %d: tried %v, want %v", seed, step, got, want)
				} else if got {
					closed++
				}
			}
			longest = max(longest, b.pause)
		}
	}
	if opened < 100 || closed < 100 || longest != longestPause {
		t.Errorf("opened %d times, closed %d times, the longest pause was %s: too little happened", opened, closed, longest)
	}
}

func TestBreakerTakesBothLimits(t *testing.T) {
	t.Parallel()
	b := breaker{failures: 100, percent: 50}
	for i := range 100 {
		if b.handled(time.Second, 0, 1) {
			t.Fatalf("it opened at failure %d", i+1)
		}
	}
	b.handled(time.Second, 101, 0)
	if b.handled(time.Second, 0, 1) {
		t.Error("it opened at 101 of 202")
	}
	if !b.handled(time.Second, 0, 1) {
		t.Error("it is closed at 102 of 203")
	}
}
