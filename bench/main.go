// Command bench measures ackledger beside the bare statements and its peers, on real servers that it starts, and writes
// results.md and results.png. `make bench` runs it; README.md says how to read it and how to add a row.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ackledger/ackledger/bench/internal/cases"
	"github.com/ackledger/ackledger/bench/internal/report"
	"github.com/ackledger/ackledger/bench/internal/suite"
)

func main() {
	cases.Child()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// settings are the command line's.
type settings struct {
	quick    bool
	list     bool
	only     string
	rounds   int
	out      string
	profiles string
}

func flags() *settings {
	s := &settings{}
	flag.BoolVar(&s.quick, "quick", false, "a short version, under 5 minutes")
	flag.BoolVar(&s.list, "list", false, "name the cases and end")
	flag.StringVar(&s.only, "run", "", "run only the cases whose group/name matches this regular `expression`")
	flag.IntVar(&s.rounds, "rounds", 0, "how many `rounds`, 1 to 100; default 5, with -quick 2")
	flag.StringVar(&s.out, "out", "", "`folder` for results.md and results.png; empty: print only")
	flag.StringVar(&s.profiles, "cpuprofile", "", "`folder` for a CPU profile of this process in each case and round")
	flag.Parse()
	return s
}

func run(ctx context.Context) error {
	s := flags()
	mode, rounds := suite.Full, 5
	if s.quick {
		mode, rounds = suite.Quick, 2
	}
	rounds = cmp.Or(s.rounds, rounds)
	if rounds < 1 || rounds > 100 {
		return fmt.Errorf("-rounds must be 1 to 100, is %d", rounds)
	}
	chosen, err := suite.Select(cases.All(), s.only)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	if s.list {
		for _, c := range chosen {
			fmt.Println(c.ID())
		}
		return nil
	}
	if s.profiles != "" {
		if err := os.MkdirAll(s.profiles, 0o755); err != nil {
			return err
		}
	}
	begin := time.Now()
	out, err := (&suite.Runner{Mode: mode, Rounds: rounds, Profiles: s.profiles, Progress: progress}).Run(ctx, chosen)
	if err != nil {
		return err
	}
	r := &report.Report{At: begin, Facts: append(cases.Facts(), out.Facts...), Outcome: out, Verdicts: suite.Judge(out, cases.Goals())}
	if err := r.Terminal(os.Stdout); err != nil {
		return err
	}
	fmt.Printf("\n%d cases, %d rounds, %v\n", len(out.Rows), rounds, time.Since(begin).Round(time.Second))
	if s.out != "" {
		if err := write(r, s.out); err != nil {
			return err
		}
	}
	return failures(out)
}

func progress(round int, c suite.Case, res suite.Result, took time.Duration, err error) {
	name := c.MainValue()
	line := fmt.Sprintf("%12s %s", report.Number(res[name]), name)
	if err != nil {
		line = "failed: " + err.Error()
	}
	fmt.Fprintf(os.Stderr, "round %d  %-60s %s  (%v in all)\n", round+1, c.ID(), line, took.Round(10*time.Millisecond))
}

// write writes the page and the chart.
func write(r *report.Report, dir string) error {
	const chart = "results.png"
	page, err := os.Create(filepath.Join(dir, "results.md"))
	if err != nil {
		return err
	}
	if err := errors.Join(r.Markdown(page, chart), page.Close()); err != nil {
		return err
	}
	picture, err := os.Create(filepath.Join(dir, chart))
	if err != nil {
		return err
	}
	return errors.Join(r.Chart(picture), picture.Close())
}

// failures are the cases that did not work: the results say so too, and so does the exit code.
func failures(o *suite.Outcome) error {
	var errs []error
	for _, row := range o.Rows {
		if row.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", row.Case.ID(), row.Err))
		}
	}
	return errors.Join(errs...)
}
