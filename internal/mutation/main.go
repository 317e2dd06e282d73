package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ackledger/ackledger/internal/reliability"
)

// packages are those that are measured, and whose tests judge them, beside their own.
var packages = []struct {
	path  string
	tests []string
}{
	{"./ledger", []string{"./ledger/memory"}},
	{"./ledger/memory", nil},
	{"./internal/ranges", []string{"./ledger/memory"}},
	{"./internal/engine", nil},
	{"./consumer", []string{"./consumer/consumertest"}},
	{"./replay", nil},
	{"./sqs", nil},
	{"./kafka", nil},
	{"./ledger/sqlite", nil},
	{"./ledger/postgres", nil},
}

// settings are the command's flags.
type settings struct {
	sample  int
	seed    uint64
	budget  time.Duration
	atOnce  int
	verbose bool
}

func main() {
	var s settings
	flag.IntVar(&s.sample, "sample", 200, "mutants of each package")
	flag.Uint64Var(&s.seed, "seed", 1, "draws the sample")
	flag.DurationVar(&s.budget, "budget", 30*time.Second, "how long the tests are that judge one mutant, together")
	flag.IntVar(&s.atOnce, "at-once", 3, "mutants that are judged at once")
	flag.BoolVar(&s.verbose, "v", false, "print every mutant, not only those that live")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings, only []string) error {
	list, err := readEquivalents(equivalents)
	if err != nil {
		return err
	}
	var failed error
	for _, p := range packages {
		if len(only) > 0 && !contains(only, p.path) {
			continue
		}
		failed = errors.Join(failed, s.measure(ctx, p.path, append([]string{p.path}, p.tests...), list))
		if ctx.Err() != nil {
			break
		}
	}
	return failed
}

func contains(list []string, path string) bool {
	for _, one := range list {
		if filepath.Clean(one) == filepath.Clean(path) {
			return true
		}
	}
	return false
}

// enough is the share of mutants, of those that change something, that is to die in each package.
const enough = 0.9

// measure judges a sample of a package's mutants and writes its row of the table.
func (s *settings) measure(ctx context.Context, path string, tests []string, list []equivalent) error {
	tmp, err := os.MkdirTemp("", "mutation")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	began := time.Now()
	p, all, err := load(ctx, path)
	if err != nil {
		return err
	}
	programs, chosen, err := p.build(ctx, tmp, tests, sample(all, s.sample, s.seed))
	if err != nil {
		return err
	}
	say := func(format string, args ...any) { fmt.Printf("# "+format+"\n", args...) }
	for _, pr := range programs {
		if err := pr.survey(ctx, tmp, 2*time.Minute, say); err != nil {
			return err
		}
	}
	say("%s: %d of %d mutants, surveyed in %s", path, len(chosen), len(all), time.Since(began).Round(time.Second))
	ends := s.judgeAll(ctx, programs, chosen)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.report(path, chosen, ends, list)
}

// judgeAll judges some mutants at once.
func (s *settings) judgeAll(ctx context.Context, programs []*program, chosen []candidate) []string {
	ends := make([]string, len(chosen))
	next := make(chan int)
	var judges sync.WaitGroup
	for range s.atOnce {
		judges.Go(func() {
			for i := range next {
				end, err := judge(ctx, programs, &chosen[i].mutant, s.budget)
				if err != nil {
					fmt.Fprintln(os.Stderr, "mutation:", &chosen[i].mutant, err)
				}
				ends[i] = end
			}
		})
	}
	for i := range chosen {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	judges.Wait()
	return ends
}

// report prints what lives and what is known of it, and writes the row.
func (s *settings) report(path string, chosen []candidate, ends []string, list []equivalent) error {
	counts := map[string]int{}
	dir := filepath.ToSlash(filepath.Clean(path))
	for i := range chosen {
		m, end := &chosen[i].mutant, ends[i]
		why := ""
		if end == survived || end == unreached {
			if why = excuse(list, dir, m); why != "" {
				end = "equivalent"
			}
		}
		counts[end]++
		if s.verbose || why == "" && (end == survived || end == unreached) {
			fmt.Printf("%s %s/%s\n    %s\n", end, dir, m, m.text)
		}
	}
	dead, alive := counts[killed]+counts[hung], counts[survived]+counts[unreached]
	share := float64(dead) / max(float64(dead+alive), 1)
	fmt.Printf("%s: %d mutants, %d killed, %d hung, %d survived, %d unreached, %d change nothing: %.1f %% die\n", path, len(chosen),
		counts[killed], counts[hung], counts[survived], counts[unreached], counts["equivalent"], 100*share)
	if page := reliability.Page(); page != "" {
		if err := reliability.Row(page, "mutation", "`"+strings.TrimPrefix(dir, "./")+"`", strconv.Itoa(len(chosen)), strconv.Itoa(dead),
			strconv.Itoa(counts["equivalent"]), strconv.Itoa(alive), fmt.Sprintf("%.1f %%", 100*share), strconv.FormatUint(s.seed, 10), reliability.Today()); err != nil {
			return err
		}
	}
	if share < enough {
		return fmt.Errorf("%s: %.1f %% of the mutants die, want %.0f %%", path, 100*share, 100*enough)
	}
	return nil
}
