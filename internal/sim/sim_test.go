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

// sum is what became of worlds.
type sum struct {
	worlds, messages, taken, runs, kills atomic.Int64
	steps                                atomic.Int64
	hash                                 atomic.Uint64 // of all steps of all worlds
}

// play plays the worlds of all seeds, on all processors. It returns the first seed whose world is broken.
func play(n uint64, s *sum) (*sim.Broken, uint64) {
	var next atomic.Uint64
	var all sync.WaitGroup
	var mu sync.Mutex
	var broken *sim.Broken
	var at uint64
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for {
				seed := next.Add(1) - 1
				if seed >= n {
					return
				}
				r, err := sim.Run(sim.Drawn(seed))
				if b, ok := errors.AsType[*sim.Broken](err); ok {
					mu.Lock()
					if broken == nil || seed < at {
						broken, at = b, seed
					}
					mu.Unlock()
					next.Store(n)
					return
				}
				s.worlds.Add(1)
				s.messages.Add(int64(r.Messages))
				s.taken.Add(int64(r.Taken))
				s.runs.Add(int64(r.Runs))
				s.kills.Add(int64(r.Kills))
				s.steps.Add(int64(r.Steps))
				s.hash.Add(r.Hash * (2*seed + 1)) // in whatever order they end
			}
		})
	}
	all.Wait()
	return broken, at
}

// In every world each promise is kept, and each comes to its end.
func TestWorldsKeepTheirPromises(t *testing.T) {
	t.Parallel()
	var s sum
	began := time.Now()
	if broken, seed := play(seeds(t), &s); broken != nil {
		t.Fatalf("seed %d: %v", seed, sim.Shrink(broken))
	}
	text := fmt.Sprintf("%d worlds, %d messages, taken in %d times, %d runs of handlers, %d processes killed, %d steps; the hash of all steps is %016x",
		s.worlds.Load(), s.messages.Load(), s.taken.Load(), s.runs.Load(), s.kills.Load(), s.steps.Load(), s.hash.Load())
	t.Log(text)
	if s.runs.Load() <= s.messages.Load() || s.kills.Load() < 50 {
		t.Errorf("too little happened: %s", text)
	}
	if page := reliability.Page(); page != "" {
		text = fmt.Sprintf("The last long run (%s, %s): no promise broken in %s.\n", reliability.Today(), time.Since(began).Round(time.Second), text)
		if err := reliability.Section(page, "sim", text); err != nil {
			t.Error(err)
		}
	}
}

// The same seeds make the same steps in another process, whose maps and pointers are in another order.
func TestSameSeedSameSteps(t *testing.T) {
	t.Parallel()
	n := min(seeds(t), 10_000)
	var here sum
	if broken, _ := play(n, &here); broken != nil {
		t.Fatal("a promise is broken: TestWorldsKeepTheirPromises tells which")
	}
	if os.Getenv("ACKLEDGER_SIM_AGAIN") != "" {
		fmt.Printf("steps %016x\n", here.hash.Load())
		return
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSameSeedSameSteps$", "-test.timeout=0")
	again.Env = append(os.Environ(), "ACKLEDGER_SIM_AGAIN=1", "GOGC=30", "GOMAXPROCS=1")
	out, err := again.Output()
	if want := fmt.Sprintf("steps %016x\n", here.hash.Load()); err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v, %s; here: %s", err, out, want)
	}
}
