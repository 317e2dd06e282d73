package adaptive_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/adaptive"
)

// With an adaptive limit nearly as much is done as with the best fixed one, which nobody knows beforehand, and not by handlers that stand in
// each other's way: calls do not take much longer, and hardly any fails that would not fail with it.
func TestNearlyAsMuchAsTheBestFixedLimit(t *testing.T) {
	for _, c := range []struct {
		workloads []workload
		least     float64
	}{{workloads, 0.9}, {others, 0.85}} {
		for _, l := range c.workloads {
			t.Run(l.name, func(t *testing.T) {
				t.Parallel()
				for seed := range uint64(2) {
					best, w := l.best(seed), l.with(adaptive.New(adaptive.Config{Min: 1, Max: most}), 0, seed)
					share := float64(len(w.done)) / float64(len(best.done))
					longer := float64(w.took) / float64(len(w.done)) / (float64(best.took) / float64(len(best.done)))
					more := float64(len(w.failed))/float64(len(w.done)) - float64(len(best.failed))/float64(len(best.done))
					text := fmt.Sprintf("%.3f of what %d handlers do, in calls that take %.2f times as long; the limit is %.1f in the mean; %d of %d fail, of the best %d",
						share, best.fixed, longer, w.mean(0, l.lasts), len(w.failed), len(w.done), len(best.failed))
					t.Log(text)
					if share < c.least || longer > 2 || more > 0.01 {
						t.Error(text)
					}
				}
			})
		}
	}
}

// A downstream that recovers gets all it can do again within 30 s.
func TestRecoversWithinHalfAMinute(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]int{"of a tenth": 2, "of nothing": 0} {
		for _, lasted := range []time.Duration{5 * time.Second, time.Minute, 10 * time.Minute} {
			t.Run(fmt.Sprint(name, ", after ", lasted), func(t *testing.T) {
				t.Parallel()
				capacity := func(now time.Duration) int {
					if now < lasted {
						return before
					}
					return 20
				}
				l := workload{"", func() plant { return &servers{mean: 10 * time.Millisecond, queue: 1, capacity: capacity} }, lasted + 40*time.Second}
				w := l.with(adaptive.New(adaptive.Config{Min: 1, Max: most}), 0, 1)
				if n := count(w.done, lasted+30*time.Second, lasted+40*time.Second); n < 0.9*10*2000 {
					t.Errorf("%d done in the 10 s after 30 s, of 20,000 that could be", n)
				}
				if n, most := count(w.failed, 0, lasted), 50+10*int(lasted.Seconds()); n > most {
					t.Errorf("%d calls failed while less could be done, at most %d", n, most)
				}
				if n, could := count(w.done, 0, lasted), before*100*int(lasted.Seconds()); float64(n) < 0.9*float64(could) {
					t.Errorf("%d done while less could be done, of %d", n, could)
				}
			})
		}
	}
}

// Handlers that take seconds get there as well: in rounds, of which each takes two calls' time.
func TestSlowHandlers(t *testing.T) {
	t.Parallel()
	l := workload{"", func() plant { return sleeps{2 * time.Second} }, 5 * time.Minute}
	w := l.with(adaptive.New(adaptive.Config{Min: 2, Max: most}), 0, 1)
	if n := w.mean(4*time.Minute, 5*time.Minute); n < 0.9*most {
		t.Errorf("the limit is %.1f after four minutes, may be %d", n, most)
	}
}

// Errors that come whatever the load is, as of messages that are too early, do not lessen the handlers.
func TestPitfall234_ErrorsThatFewerHandlersHaveAsWell(t *testing.T) {
	t.Parallel()
	for _, part := range []float64{0.05, 0.2, 0.35} {
		l := workload{"", func() plant { return unlucky{sleeps{20 * time.Millisecond}, part} }, time.Minute}
		for seed := range uint64(2) {
			w := l.with(adaptive.New(adaptive.Config{Min: 1, Max: most}), 0, seed)
			if n := w.mean(30*time.Second, time.Minute); n < 0.9*most {
				t.Errorf("the limit is %.1f in the mean, though %.0f %% of errors come from no load, may be %d", n, 100*part, most)
			}
		}
	}
}

// Calls that hang until they time out are failures as others, though calls of before took a thousandth of that: handlers wait for few of them.
func TestPitfall232_CallsThatHang(t *testing.T) {
	t.Parallel()
	l := workload{"", func() plant {
		return &hangs{&servers{mean: 10 * time.Millisecond, capacity: always(20)}, 20 * time.Second, 20 * time.Minute}
	}, 22 * time.Minute}
	w := l.with(adaptive.New(adaptive.Config{Min: 1, Max: most}), 0, 1)
	if n := w.mean(5*time.Minute, 20*time.Minute); n > 2 || len(w.failed) > 120 {
		t.Errorf("the limit is %.1f in the mean while all hangs, and %d calls do", n, len(w.failed))
	}
	if n := count(w.done, 21*time.Minute+30*time.Second, 22*time.Minute); n < 0.9*30*2000 {
		t.Errorf("%d calls in half a minute after it, of 60,000", n)
	}
}

// A downstream that takes longer for everybody, and does as many calls at once as before, keeps its handlers.
func TestLatencyThatNoLoadMakes(t *testing.T) {
	t.Parallel()
	l := workload{"", func() plant { return &slower{from: 20 * time.Second} }, 80 * time.Second}
	w := l.with(adaptive.New(adaptive.Config{Min: 1, Max: most}), 0, 1)
	if n := w.mean(50*time.Second, 80*time.Second); n < 0.85*most {
		t.Errorf("the limit is %.1f in the mean half a minute after, may be %d", n, most)
	}
}
