package sim_test

import (
	"errors"
	"os"
	"strconv"
	"testing"

	"github.com/ackledger/ackledger/internal/sim"
)

// seeds is how many worlds are played: some, or as many as `make sim` was told.
func seeds(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("ACKLEDGER_SIM")
	if text == "" {
		return 150
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("ACKLEDGER_SIM must be a number of worlds, is %q", text)
	}
	return n
}

// In every world each promise is kept, and each comes to its end.
func TestWorldsKeepTheirPromises(t *testing.T) {
	t.Parallel()
	var sum sim.Report
	for seed := range seeds(t) {
		r, err := sim.Run(sim.Drawn(seed))
		if broken, ok := errors.AsType[*sim.Broken](err); ok {
			t.Fatalf("seed %d: %v", seed, sim.Shrink(broken))
		}
		sum.Messages, sum.Steps, sum.Runs, sum.Kills = sum.Messages+r.Messages, sum.Steps+r.Steps, sum.Runs+r.Runs, sum.Kills+r.Kills
	}
	t.Logf("%d messages, %d steps, %d runs of handlers, %d processes killed", sum.Messages, sum.Steps, sum.Runs, sum.Kills)
	if sum.Runs <= sum.Messages || sum.Kills < 50 {
		t.Errorf("too little happened: %+v", sum)
	}
}

// The same seed makes the same steps.
func TestSameSeedSameSteps(t *testing.T) {
	t.Parallel()
	for seed := range min(seeds(t)/4, 10_000) {
		first, _ := sim.Run(sim.Drawn(seed))
		if second, _ := sim.Run(sim.Drawn(seed)); first != second {
			t.Fatalf("seed %d: %+v, then %+v", seed, first, second)
		}
	}
}
