package sim

import (
	"testing"
	"time"
)

// Without trouble, or with one kind of it, a world takes the calls and transactions of the ledger, the rows and the time that it took when these were written
// down: fewer are welcome, and are to be written down; more are a decision that costs every user something. The numbers depend on decisions alone, on no machine.
func TestWorldsTakeTheirTime(t *testing.T) {
	t.Parallel()
	base := Config{Seed: 1, Workers: 1, Partitions: 2, Messages: 2000, Concurrency: 8, Pace: 3 * time.Microsecond, Calm: time.Hour}
	for name, c := range map[string]struct {
		change func(*Config)
		calls  int
		txs    int // transactions
		rows   int // that are left
		given  int // dispatches
		whole  int // messages that were settled in ranges
		took   time.Duration
	}{
		"no order":                 {func(*Config) {}, 295, 296, 4000, 179, 0, 802 * time.Millisecond},
		"by key":                   {func(c *Config) { c.Keys = 16 }, 495, 496, 4000, 350, 0, 803 * time.Millisecond},
		"by partition":             {func(c *Config) { c.Keys = 1 }, 4643, 4641, 4000, 4000, 0, 4904 * time.Millisecond},
		"ranges":                   {func(c *Config) { c.Ranged = true }, 249, 264, 0, 190, 3915, 701 * time.Millisecond},
		"ranges, by key":           {func(c *Config) { c.Ranged, c.Keys = true, 16 }, 233, 244, 0, 185, 3915, 703 * time.Millisecond},
		"handlers of 50 µs":        {func(c *Config) { c.Pace = 50 * time.Microsecond }, 440, 441, 4000, 1991, 0, 702 * time.Millisecond},
		"handlers of 5 ms":         {func(c *Config) { c.Pace, c.Messages = 5*time.Millisecond, 500 }, 546, 547, 1000, 1000, 0, 802 * time.Millisecond},
		"handlers of 5 ms, ranges": {func(c *Config) { c.Pace, c.Messages, c.Ranged = 5*time.Millisecond, 500, true }, 520, 520, 0, 1000, 0, 804 * time.Millisecond},
		"batches":                  {func(c *Config) { c.Batch, c.Pace = 50, time.Millisecond }, 239, 239, 4000, 138, 0, 702 * time.Millisecond},
		"batches, ranges":          {func(c *Config) { c.Batch, c.Pace, c.Ranged = 50, time.Millisecond, true }, 220, 222, 0, 129, 330, 702 * time.Millisecond},
		"batches, by key":          {func(c *Config) { c.Batch, c.Pace, c.Keys = 50, time.Millisecond, 100 }, 239, 239, 4000, 138, 0, 702 * time.Millisecond},
		"transactions":             {func(c *Config) { c.InTx, c.Keys = true, 16 }, 4161, 4162, 4000, 4000, 0, 1203 * time.Millisecond},
		"batches of 30 ms, ranges": {func(c *Config) { c.Batch, c.Pace, c.Messages, c.Ranged = 10, 30*time.Millisecond, 500, true }, 135, 134, 0, 106, 0, 603 * time.Millisecond},
		"ranges, some fail":        {func(c *Config) { c.Ranged, c.Moods[retried] = true, 0.05 }, 287, 298, 4, 182, 1188, 1504 * time.Millisecond},
		"ranges, some are slow":    {func(c *Config) { c.Ranged, c.Messages, c.Moods[slow] = true, 500, 0.1 }, 80, 79, 0, 53, 537, 2702 * time.Millisecond},
		"some are slow":            {func(c *Config) { c.Messages, c.Moods[slow] = 500, 0.2 }, 161, 163, 1000, 122, 0, 1902 * time.Millisecond},
		"transactions, ranges":     {func(c *Config) { c.InTx, c.Ranged, c.Keys = true, true, 16 }, 4161, 4317, 0, 4000, 0, 1203 * time.Millisecond},
		"batched transactions":     {func(c *Config) { c.InTx, c.Ranged, c.Batch, c.Pace = true, true, 10, time.Millisecond }, 762, 705, 0, 485, 3680, 903 * time.Millisecond},
		"ranges, gaps":             {func(c *Config) { c.Ranged, c.Moods[gap], c.Moods[control] = true, 1, 1 }, 270, 282, 0, 190, 3943, 802 * time.Millisecond},
		"ranges, epochs":           {func(c *Config) { c.Ranged, c.Pace, c.Messages, c.Moods[election] = true, 5*time.Millisecond, 500, 1 }, 513, 533, 0, 1000, 0, 801 * time.Millisecond},
		"ranges and rows":          {func(c *Config) { c.Ranged, c.Mixed, c.Workers, c.Partitions = true, true, 4, 8; c.Messages = 300 }, 361, 364, 2400, 218, 0, 303 * time.Millisecond},
		"ranges and rows, retries": {func(c *Config) {
			c.Ranged, c.Mixed, c.Workers, c.Partitions = true, true, 4, 8
			c.Messages, c.Moods[retried] = 100, 2
		}, 241, 246, 800, 148, 0, 1202 * time.Millisecond},
		"ranges, copies": {func(c *Config) { c.Ranged, c.Messages, c.Moods[copied] = true, 500, 1 }, 83, 86, 0, 60, 915, 304 * time.Millisecond},
		"ranges, rebalances": {func(c *Config) {
			c.Ranged, c.Workers, c.Partitions, c.Concurrency, c.Messages, c.Pace, c.Moods[revocation] = true, 3, 8, 2, 300, 5*time.Millisecond, 4
		}, 2512, 2511, 0, 2400, 0, 3203 * time.Millisecond},
		"ranges, crashes": {func(c *Config) {
			c.Ranged, c.Workers, c.Partitions, c.Concurrency, c.Messages, c.Pace, c.Moods[mishap], c.Calm = true, 3, 4, 2, 300, 5*time.Millisecond, 4, 10*time.Second
		}, 1498, 1497, 35, 1202, 0, 18061 * time.Millisecond},
		"rows, rebalances": {func(c *Config) {
			c.Workers, c.Partitions, c.Concurrency, c.Messages, c.Keys, c.Pace, c.Moods[revocation] = 3, 8, 2, 300, 8, 5*time.Millisecond, 4
		}, 2536, 2540, 2400, 2400, 0, 3404 * time.Millisecond},
		"rows, crashes": {func(c *Config) {
			c.Workers, c.Partitions, c.Concurrency, c.Messages, c.Keys, c.Pace, c.Moods[mishap], c.Calm = 3, 4, 2, 300, 8, 5*time.Millisecond, 4, 10*time.Second
		}, 1307, 1301, 1200, 1202, 0, 10990 * time.Millisecond},
		"a queue": {func(c *Config) { c.Visibility, c.Messages, c.Pace = 4*time.Second, 500, 5*time.Millisecond }, 687, 686, 1000, 1000, 0, 811 * time.Millisecond},
		"a queue, some are slow": {func(c *Config) {
			c.Visibility, c.Messages, c.Pace, c.Moods[slow], c.Moods[retried] = 4*time.Second, 500, 5*time.Millisecond, 1, 1
		}, 1007, 1004, 1000, 1024, 0, 5867 * time.Millisecond},
		"a budget and a breaker": {func(c *Config) {
			c.Messages, c.Budget, c.Failures, c.Moods[failing], c.Calm = 500, 5, 5, 4, 10*time.Second
		}, 142, 128, 1000, 79, 0, 20302 * time.Millisecond},
		"suspects": {func(c *Config) {
			c.Workers, c.Partitions, c.Messages, c.Pace, c.Moods[deadly] = 3, 2, 100, 5*time.Millisecond, 8
		}, 407, 370, 200, 235, 0, 36743 * time.Millisecond},
		"parked": {func(c *Config) { c.Park, c.LimitStarts, c.Messages = true, true, 200 }, 642, 644, 400, 400, 0, 604 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := base
			c.change(&cfg)
			r, err := Run(cfg)
			if err != nil {
				t.Fatal(err)
			}
			near := func(is, was int) bool { return float64(is) >= float64(was)*0.97 && float64(is) <= float64(was)*1.03 }
			if !near(r.Calls, c.calls) || !near(r.Transactions, c.txs) || r.Rows != c.rows || !near(r.Dispatches, c.given) || !near(r.Whole, c.whole) ||
				!near(int(r.Took), int(c.took)) {
				t.Errorf("%d, %d, %d, %d, %d, %d * time.Millisecond}; before: %d, %d, %d, %d, %d, %s", r.Calls, r.Transactions, r.Rows, r.Dispatches, r.Whole,
					r.Took.Milliseconds(), c.calls, c.txs, c.rows, c.given, c.whole, c.took)
			}
		})
	}
}
