package suite

import (
	"context"
	"fmt"
	"regexp"
	"time"
)

// Names of the values that many cases report. The unit is the last word.
const (
	Rate      = "messages/s"
	Commits   = "commits/s"
	BytesEach = "B/message"
	HotShare  = "HOT %"
	P50       = "p50 ms"
	P99       = "p99 ms"
	Resident  = "RSS MiB"
)

// Size is how many messages a case is given.
type Size struct {
	Full, Quick int
	Smoke       int // for a test that the case works; 0: 300
}

// Case is one row of the benchmark.
type Case struct {
	Group string // cases of one group are measured in turn
	Name  string // unique within the group
	// Note says what a reader must know to judge the row: a peer's settings, what is not comparable.
	Note string
	N    Size
	// Main is the value that stands first and in the chart. Default: Rate.
	Main string
	// Limit ends a run that hangs. Default: 5 minutes.
	Limit time.Duration
	// Once says that Quick measures it in the first round only: a case whose start alone takes seconds.
	Once bool
	// Run measures once. What it starts or makes it gives to Run.Cleanup or to a Scope.
	Run func(ctx context.Context, r *Run) (Result, error)
}

// ID names the case among all.
func (c Case) ID() string { return c.Group + "/" + c.Name }

// MainValue is Main with its default.
func (c Case) MainValue() string {
	if c.Main == "" {
		return Rate
	}
	return c.Main
}

// Result is what one run measured, by the names of the values.
type Result map[string]float64

// Throughput is the result of n messages in the given time.
func Throughput(n int, took time.Duration) Result {
	return Result{Rate: float64(n) / max(took, time.Nanosecond).Seconds()}
}

// Mode is how much is measured.
type Mode int

// The modes.
const (
	Full Mode = iota
	Quick
	Smoke // a few messages: only whether the case works
)

func (m Mode) String() string { return [...]string{"full", "quick", "smoke"}[m] }

// Of picks the mode's size.
func (m Mode) Of(s Size) int {
	switch {
	case m == Full:
		return s.Full
	case m == Quick:
		return s.Quick
	case s.Smoke == 0:
		return 300
	}
	return s.Smoke
}

// Select returns the cases whose ID the expression matches, in their order; all for an empty one.
func Select(all []Case, expr string) ([]Case, error) {
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	var out []Case
	for _, c := range all {
		if re.MatchString(c.ID()) {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no case matches %q", expr)
	}
	return out, nil
}
