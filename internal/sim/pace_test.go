package sim

import (
	"testing"
	"time"
)

// Without trouble a world takes the calls of the ledger and the time that it took when these were written down: fewer are welcome, and
// are to be written down; more are a decision that costs every user something. The numbers depend on decisions alone, on no machine.
func TestWorldsTakeTheirTime(t *testing.T) {
	t.Parallel()
	base := Config{Seed: 1, Workers: 1, Partitions: 2, Messages: 2000, Concurrency: 8, Pace: 3 * time.Microsecond, Calm: time.Hour}
	for name, c := range map[string]struct {
		change func(*Config)
		calls  int
		given  int // dispatches
		whole  int // messages that were settled in ranges
		took   time.Duration
	}{
		"no order":                 {func(*Config) {}, 291, 177, 0, 802 * time.Millisecond},
		"by key":                   {func(c *Config) { c.Keys = 16 }, 495, 350, 0, 803 * time.Millisecond},
		"by partition":             {func(c *Config) { c.Keys = 1 }, 4643, 4000, 0, 4904 * time.Millisecond},
		"ranges":                   {func(c *Config) { c.Ranged = true }, 249, 190, 3915, 701 * time.Millisecond},
		"ranges, by key":           {func(c *Config) { c.Ranged, c.Keys = true, 16 }, 233, 185, 3915, 703 * time.Millisecond},
		"handlers of 50 µs":        {func(c *Config) { c.Pace = 50 * time.Microsecond }, 446, 2010, 0, 703 * time.Millisecond},
		"handlers of 5 ms":         {func(c *Config) { c.Pace, c.Messages = 5*time.Millisecond, 500 }, 550, 1000, 0, 802 * time.Millisecond},
		"handlers of 5 ms, ranges": {func(c *Config) { c.Pace, c.Messages, c.Ranged = 5*time.Millisecond, 500, true }, 519, 1000, 0, 804 * time.Millisecond},
		"batches":                  {func(c *Config) { c.Batch, c.Pace = 50, time.Millisecond }, 235, 136, 0, 704 * time.Millisecond},
		"batches, ranges":          {func(c *Config) { c.Batch, c.Pace, c.Ranged = 50, time.Millisecond, true }, 220, 129, 330, 702 * time.Millisecond},
		"batches, by key":          {func(c *Config) { c.Batch, c.Pace, c.Keys = 50, time.Millisecond, 100 }, 239, 138, 0, 702 * time.Millisecond},
		"transactions":             {func(c *Config) { c.InTx, c.Keys = true, 16 }, 4159, 4000, 0, 1202 * time.Millisecond},
		"batches of 30 ms, ranges": {func(c *Config) { c.Batch, c.Pace, c.Messages, c.Ranged = 10, 30*time.Millisecond, 500, true }, 134, 107, 0, 603 * time.Millisecond},
		"ranges, some fail":        {func(c *Config) { c.Ranged, c.Moods[retried] = true, 0.05 }, 287, 182, 1188, 1504 * time.Millisecond},
		"ranges, some are slow":    {func(c *Config) { c.Ranged, c.Messages, c.Moods[slow] = true, 500, 0.1 }, 80, 53, 537, 2702 * time.Millisecond},
		"some are slow":            {func(c *Config) { c.Messages, c.Moods[slow] = 500, 0.2 }, 161, 122, 0, 1902 * time.Millisecond},
		"parked":                   {func(c *Config) { c.Park, c.LimitStarts, c.Messages = true, true, 200 }, 627, 400, 0, 602 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := base
			c.change(&cfg)
			r, err := Run(cfg)
			if err != nil {
				t.Fatal(err)
			}
			near := func(is, was float64) bool { return is >= was*0.97 && is <= was*1.03 }
			if !near(float64(r.Calls), float64(c.calls)) || !near(float64(r.Dispatches), float64(c.given)) || !near(float64(r.Whole), float64(c.whole)) ||
				!near(r.Took.Seconds(), c.took.Seconds()) {
				t.Errorf("%d, %d, %d, %d * time.Millisecond}; before: %d, %d, %d, %s", r.Calls, r.Dispatches, r.Whole, r.Took.Milliseconds(), c.calls, c.given, c.whole, c.took)
			}
		})
	}
}
