package sim

import (
	"testing"
	"time"
)

// Without trouble, or with one kind of it, a world takes the calls and transactions of the ledger, the rows and ranges, the news and the time that it took when these were written
// down: fewer are welcome, and are to be written down; more are a decision that costs every user something. The numbers depend on decisions alone, on no machine.
func TestWorldsTakeTheirTime(t *testing.T) {
	t.Parallel()
	base := Config{Seed: 1, Workers: 1, Partitions: 2, Messages: 2000, Concurrency: 8, Pace: 3 * time.Microsecond, Calm: time.Hour}
	for name, c := range map[string]struct {
		change func(*Config)
		want   numbers
	}{
		"no order":                 {func(*Config) {}, numbers{295, 296, 4000, 179, 0, 0, 0, 802}},
		"by key":                   {func(c *Config) { c.Keys = 16 }, numbers{495, 496, 4000, 350, 0, 0, 0, 803}},
		"by partition":             {func(c *Config) { c.Keys = 1 }, numbers{4643, 4641, 4000, 4000, 0, 0, 0, 4904}},
		"ranges":                   {func(c *Config) { c.Ranged = true }, numbers{258, 268, 0, 196, 3915, 171, 0, 903}},
		"ranges, by key":           {func(c *Config) { c.Ranged, c.Keys = true, 16 }, numbers{233, 244, 0, 185, 3915, 156, 0, 703}},
		"handlers of 50 µs":        {func(c *Config) { c.Pace = 50 * time.Microsecond }, numbers{440, 441, 4000, 1991, 0, 0, 0, 702}},
		"handlers of 5 ms":         {func(c *Config) { c.Pace, c.Messages = 5*time.Millisecond, 500 }, numbers{546, 547, 1000, 1000, 0, 0, 0, 802}},
		"handlers of 5 ms, ranges": {func(c *Config) { c.Pace, c.Messages, c.Ranged = 5*time.Millisecond, 500, true }, numbers{520, 520, 0, 1000, 0, 70, 0, 804}},
		"batches":                  {func(c *Config) { c.Batch, c.Pace = 50, time.Millisecond }, numbers{239, 239, 4000, 138, 0, 0, 0, 702}},
		"batches, ranges":          {func(c *Config) { c.Batch, c.Pace, c.Ranged = 50, time.Millisecond, true }, numbers{220, 222, 0, 129, 330, 171, 0, 702}},
		"batches, by key":          {func(c *Config) { c.Batch, c.Pace, c.Keys = 50, time.Millisecond, 100 }, numbers{239, 239, 4000, 138, 0, 0, 0, 702}},
		"transactions":             {func(c *Config) { c.InTx, c.Keys = true, 16 }, numbers{4161, 4162, 4000, 4000, 0, 0, 0, 1203}},
		"batches of 30 ms, ranges": {func(c *Config) { c.Batch, c.Pace, c.Messages, c.Ranged = 10, 30*time.Millisecond, 500, true }, numbers{137, 136, 0, 113, 23, 49, 0, 703}},
		"ranges, some fail":        {func(c *Config) { c.Ranged, c.Moods[retried] = true, 0.05 }, numbers{305, 317, 4, 189, 1960, 168, 0, 1502}},
		"ranges, some are slow":    {func(c *Config) { c.Ranged, c.Messages, c.Moods[slow] = true, 500, 0.1 }, numbers{92, 92, 0, 58, 537, 45, 0, 2701}},
		"some are slow":            {func(c *Config) { c.Messages, c.Moods[slow] = 500, 0.2 }, numbers{159, 161, 1000, 94, 0, 0, 0, 1904}},
		"transactions, ranges":     {func(c *Config) { c.InTx, c.Ranged, c.Keys = true, true, 16 }, numbers{4161, 4317, 0, 4000, 0, 335, 0, 1203}},
		"batched transactions":     {func(c *Config) { c.InTx, c.Ranged, c.Batch, c.Pace = true, true, 10, time.Millisecond }, numbers{737, 605, 0, 475, 3790, 169, 0, 1002}},
		"ranges, gaps":             {func(c *Config) { c.Ranged, c.Moods[gap], c.Moods[control] = true, 1, 1 }, numbers{270, 282, 0, 190, 3943, 178, 0, 802}},
		"ranges, epochs":           {func(c *Config) { c.Ranged, c.Pace, c.Messages, c.Moods[election] = true, 5*time.Millisecond, 500, 1 }, numbers{513, 533, 0, 1000, 0, 117, 0, 801}},
		"ranges and rows":          {func(c *Config) { c.Ranged, c.Mixed, c.Workers, c.Partitions = true, true, 4, 8; c.Messages = 300 }, numbers{361, 364, 2400, 218, 0, 0, 0, 303}},
		"ranges and rows, retries": {func(c *Config) {
			c.Ranged, c.Mixed, c.Workers, c.Partitions = true, true, 4, 8
			c.Messages, c.Moods[retried] = 100, 2
		}, numbers{227, 233, 800, 139, 0, 0, 0, 1606}},
		"ranges, rows, rebalances": {func(c *Config) {
			c.Seed, c.Ranged, c.Mixed, c.Workers, c.Partitions, c.Concurrency, c.Messages, c.Pace, c.Moods[revocation] = 4, true, true, 4, 4, 2, 200, 5*time.Millisecond, 10
		}, numbers{867, 920, 643, 800, 0, 37, 0, 1602}},
		"ranges, copies": {func(c *Config) { c.Ranged, c.Messages, c.Moods[copied] = true, 500, 1 }, numbers{83, 86, 0, 60, 915, 50, 0, 304}},
		"ranges, rebalances": {func(c *Config) {
			c.Ranged, c.Workers, c.Partitions, c.Concurrency, c.Messages, c.Pace, c.Moods[revocation] = true, 3, 8, 2, 300, 5*time.Millisecond, 4
		}, numbers{2512, 2511, 0, 2400, 0, 210, 0, 3203}},
		"ranges, crashes": {func(c *Config) {
			c.Ranged, c.Workers, c.Partitions, c.Concurrency, c.Messages, c.Pace, c.Moods[mishap], c.Calm = true, 3, 4, 2, 300, 5*time.Millisecond, 4, 10*time.Second
		}, numbers{1498, 1497, 35, 1202, 0, 105, 0, 18061}},
		"rows, rebalances": {func(c *Config) {
			c.Workers, c.Partitions, c.Concurrency, c.Messages, c.Keys, c.Pace, c.Moods[revocation] = 3, 8, 2, 300, 8, 5*time.Millisecond, 4
		}, numbers{2537, 2540, 2400, 2400, 0, 0, 0, 3301}},
		"rows, crashes": {func(c *Config) {
			c.Workers, c.Partitions, c.Concurrency, c.Messages, c.Keys, c.Pace, c.Moods[mishap], c.Calm = 3, 4, 2, 300, 8, 5*time.Millisecond, 4, 10*time.Second
		}, numbers{1307, 1301, 1200, 1202, 0, 0, 0, 10990}},
		"a queue": {func(c *Config) { c.Visibility, c.Messages, c.Pace = 4*time.Second, 500, 5*time.Millisecond }, numbers{687, 686, 1000, 1000, 0, 0, 0, 811}},
		"a queue, some are slow": {func(c *Config) {
			c.Visibility, c.Messages, c.Pace, c.Moods[slow], c.Moods[retried] = 4*time.Second, 500, 5*time.Millisecond, 1, 1
		}, numbers{1010, 1006, 1000, 1034, 0, 0, 0, 6589}},
		"a budget and a breaker": {func(c *Config) {
			c.Messages, c.Budget, c.Failures, c.Moods[failing], c.Calm = 500, 5, 5, 4, 10*time.Second
		}, numbers{142, 128, 1000, 79, 0, 0, 11, 20302}},
		"suspects": {func(c *Config) {
			c.Workers, c.Partitions, c.Messages, c.Pace, c.Moods[deadly] = 3, 2, 100, 5*time.Millisecond, 8
		}, numbers{407, 370, 200, 235, 0, 0, 3, 36743}},
		"parked": {func(c *Config) { c.Park, c.LimitStarts, c.Messages = true, true, 200 }, numbers{642, 644, 400, 400, 0, 0, 0, 604}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := base
			c.change(&cfg)
			r, err := Run(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if is := numbersOf(&r); !is.near(&c.want) {
				t.Errorf("%#v; before: %#v", is, c.want)
			}
		})
	}
}

// numbers are what a world took: calls, transactions, rows that are left, dispatches, messages that were settled in ranges, ranges, news,
// and milliseconds.
type numbers [8]int

func numbersOf(r *Report) numbers {
	return numbers{r.Calls, r.Transactions, r.Rows, r.Dispatches, r.Whole, r.Ranges, r.News, int(r.Took.Milliseconds())}
}

// near says whether no number is more than 3 % off.
func (n *numbers) near(was *numbers) bool {
	for i, is := range n {
		if off := float64(is-was[i]) / float64(max(was[i], 1)); off < -0.03 || off > 0.03 {
			return false
		}
	}
	return true
}
