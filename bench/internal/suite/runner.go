package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"
)

func (c Case) limit() time.Duration { return cmp.Or(c.Limit, 5*time.Minute) }

// Runner measures cases.
type Runner struct {
	Mode   Mode
	Rounds int
	// Profiles is a folder for one CPU profile a run; empty: none.
	Profiles string
	// Progress is told of each run; nil: nobody.
	Progress func(round int, c Case, res Result, took time.Duration, err error)
}

// Row is one case and what its rounds measured.
type Row struct {
	Case   Case
	Rounds []Result // one a round; nil for a round that failed
	Err    error    // of the rounds that failed
}

// Values are the rounds' values of one name, without those that failed.
func (r *Row) Values(name string) []float64 {
	var out []float64
	for _, res := range r.Rounds {
		if v, ok := res[name]; ok {
			out = append(out, v)
		}
	}
	return out
}

// Outcome is everything that was measured, in the order of the cases.
type Outcome struct {
	Mode   Mode
	Rounds int
	Rows   []*Row
	Facts  []Fact // in the order in which the cases noted them
}

// Run measures all cases. Groups come in the order of their first case. The error is only ctx's, or of what could not be
// cleaned up; a case that fails is in its row.
func (r *Runner) Run(ctx context.Context, cases []Case) (*Outcome, error) {
	out := &Outcome{Mode: r.Mode, Rounds: r.Rounds}
	all := &Scope{}
	var groups []string
	of := map[string][]*Row{}
	for _, c := range cases {
		row := &Row{Case: c, Rounds: make([]Result, r.Rounds)}
		out.Rows = append(out.Rows, row)
		if of[c.Group] == nil {
			groups = append(groups, c.Group)
		}
		of[c.Group] = append(of[c.Group], row)
	}
	var errs []error
	for _, g := range groups {
		errs = append(errs, r.group(ctx, all, of[g]))
	}
	out.Facts = all.facts
	errs = append(errs, all.Close(), ctx.Err())
	return out, errors.Join(errs...)
}

// group measures the cases of one group in turn. Each round begins with another case, so that none always comes after
// the same one.
func (r *Runner) group(ctx context.Context, all *Scope, rows []*Row) error {
	of := &Scope{}
	for round := range r.Rounds {
		for i := range rows {
			if ctx.Err() != nil {
				break
			}
			row := rows[(i+round)%len(rows)]
			if row.Case.Once && r.Mode == Quick && round > 0 {
				continue
			}
			r.once(ctx, &Run{N: r.Mode.Of(row.Case.N), Mode: r.Mode, All: all, Of: of}, row, round)
		}
	}
	return of.Close()
}

func (r *Runner) once(ctx context.Context, run *Run, row *Row, round int) {
	runtime.GC() // what the case before left is not this one's to clean up
	stop, err := r.profile(row.Case, round)
	begin := time.Now()
	var res Result
	if err == nil {
		res, err = row.Case.measure(ctx, run)
		err = errors.Join(err, stop())
	}
	if err == nil {
		row.Rounds[round] = res
	} else {
		row.Err = errors.Join(row.Err, fmt.Errorf("round %d: %w", round+1, err))
	}
	if r.Progress != nil {
		r.Progress(round, row.Case, res, time.Since(begin), err)
	}
}

// profile starts a CPU profile, if they are asked for, and returns what ends it.
func (r *Runner) profile(c Case, round int) (func() error, error) {
	if r.Profiles == "" {
		return func() error { return nil }, nil
	}
	name := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return '_'
	}, c.ID())
	f, err := os.Create(filepath.Join(r.Profiles, fmt.Sprintf("%s_%d.pprof", name, round+1)))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
