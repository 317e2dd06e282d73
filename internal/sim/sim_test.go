package sim_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/reliability"
	"github.com/ackledger/ackledger/internal/sim"
)

// seeds is how many worlds are played: some, or as many as `make sim` was told.
var seeds = sync.OnceValue(func() uint64 {
	text := os.Getenv("ACKLEDGER_SIM")
	if text == "" {
		return 150
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("ACKLEDGER_SIM must be a number of worlds, is %q", text))
	}
	return n
})

// sum is what became of worlds.
type sum struct {
	worlds, messages, taken, runs, kills, steps int
	hash                                        uint64 // of all steps of all worlds
	took                                        time.Duration
	broken                                      *sim.Broken // in the world of the lowest seed in which a promise is
	at                                          uint64      // that seed
	again                                       *sum        // those of them that are played again
}

// playedAgain is how many worlds another process plays again: a tenth, but all if there are few.
func playedAgain(n uint64) uint64 { return min(n, max(n/10, 1000), 10_000) }

// played is all worlds, once.
var played = sync.OnceValue(func() *sum {
	s := &sum{again: &sum{}}
	s.play(seeds())
	return s
})

// play plays the worlds of all seeds, on all processors.
func (s *sum) play(n uint64) {
	var next atomic.Uint64
	var all sync.WaitGroup
	var mu sync.Mutex
	began := time.Now()
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for seed := next.Add(1) - 1; seed < n; seed = next.Add(1) - 1 {
				r, err := sim.Run(sim.Drawn(seed))
				mu.Lock()
				if b, ok := errors.AsType[*sim.Broken](err); ok && (s.broken == nil || seed < s.at) {
					s.broken, s.at = b, seed
					next.Store(n)
				}
				s.add(seed, &r)
				if seed < playedAgain(n) {
					s.again.add(seed, &r)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	s.took = time.Since(began).Round(time.Second)
}

// add adds a world, in whatever order they end.
func (s *sum) add(seed uint64, r *sim.Report) {
	s.worlds++
	s.messages, s.taken, s.runs, s.kills, s.steps = s.messages+r.Messages, s.taken+r.Taken, s.runs+r.Runs, s.kills+r.Kills, s.steps+r.Steps
	s.hash += r.Hash * (2*seed + 1)
}

// String says what became of them.
func (s *sum) String() string {
	return fmt.Sprintf("%d worlds, %d messages, taken in %d times, %d runs of handlers, %d processes killed, %d steps; the hash of all steps is %016x",
		s.worlds, s.messages, s.taken, s.runs, s.kills, s.steps, s.hash)
}

// In every world each promise is kept, and each comes to its end.
func TestWorldsKeepTheirPromises(t *testing.T) {
	t.Parallel()
	s := played()
	if s.broken != nil {
		t.Fatalf("seed %d: %v", s.at, sim.Shrink(s.broken))
	}
	t.Log(s)
	if s.runs <= s.messages || s.kills < 50 {
		t.Errorf("too little happened: %s", s)
	}
	if page := reliability.Page(); page != "" {
		text := fmt.Sprintf("The last long run (%s, %s): no promise broken in %s.\n", reliability.Today(), s.took, s)
		if err := reliability.Section(page, "sim", text); err != nil {
			t.Error(err)
		}
	}
}

// The same seeds make the same steps in another process, whose maps and pointers are in another order.
func TestSameSeedSameSteps(t *testing.T) {
	t.Parallel()
	here := played()
	if os.Getenv("ACKLEDGER_SIM_AGAIN") != "" {
		fmt.Println(here)
		return
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSameSeedSameSteps$", "-test.timeout=0")
	again.Env = append(os.Environ(), "ACKLEDGER_SIM_AGAIN=1", "GOGC=30", "GOMAXPROCS=1", fmt.Sprintf("ACKLEDGER_SIM=%d", playedAgain(seeds())))
	if out, err := again.Output(); err != nil || here.broken == nil && !strings.Contains(string(out), here.again.String()) {
		t.Errorf("%v, %s; here: %s", err, out, here.again)
	}
}
