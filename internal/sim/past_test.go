package sim

import (
	"os"
	"testing"
	"time"
)

// Faults of the past that hardly any world of all kinds meets have kinds of worlds of their own. With its fault put back
// (internal/mutants) each is broken within 300 worlds from its first one on.
func TestWorldsOfPastFaults(t *testing.T) {
	t.Parallel()
	worlds := uint64(15)
	if text := os.Getenv("ACKLEDGER_SIM"); text != "" {
		worlds = 300
	}
	for name, kind := range map[string]struct {
		first uint64
		draw  func(c *Config)
	}{
		"pitfall 152": {0, func(c *Config) { // rows with tokens above those of their ranges go, and copies come
			c.Partitions, c.Messages, c.Concurrency, c.Hours = 1, 2+int(c.Seed%2), 2, true
			c.Moods[retried], c.Moods[outdated], c.Moods[reopened], c.Moods[copied] = 15, 4, 20, 20
		}},
		"pitfall 155": {500, func(c *Config) { // logs of rows and ranges are dropped, and their messages come again
			c.Partitions, c.Messages, c.Keys, c.Batch, c.InTx, c.Mixed, c.Failures = 2, 5+int(c.Seed%30), 4, 5, true, true, 4
			c.Moods[failing], c.Moods[hopeless], c.Moods[redriven] = 20, 20, 20
			c.Moods[unfit], c.Moods[election], c.Moods[control], c.Moods[contended] = 4, 4, 4, 4
			for _, k := range [...]kind{refused, callLate, odd, locked, forgotten, revocation, retried, deadly, foreign, reopened, tearing} {
				c.Moods[k] = 1
			}
		}},
		"pitfall 156": {400, func(c *Config) { // and copies of them
			c.Workers, c.Partitions, c.Messages, c.Published, c.Mixed = 2, 2, 5+int(c.Seed%30), true, true
			c.Moods[mishap], c.Moods[election], c.Moods[copied], c.Moods[contended], c.Moods[failing] = 20, 20, 20, 20, 4
			for _, k := range [...]kind{callLate, unnoticed, odd, control, revocation, slow, foreign, outdated} {
				c.Moods[k] = 1
			}
		}},
		"pitfall 157": {0, func(c *Config) { // elsewhere, before its failure is told
			c.Workers, c.Messages, c.Partitions, c.Callers, c.Ranged = 2, 5, 1, 4, false
			c.Moods[failing], c.Moods[answerLost], c.Moods[slow] = 20, 20, 4
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := kind.first; seed < kind.first+worlds; seed++ {
				c := Config{Seed: seed, Workers: 1, Concurrency: 1, Ranged: true, Pace: 3 * time.Microsecond, Calm: 20 * time.Second}
				kind.draw(&c)
				if _, err := Run(c); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		})
	}
}
