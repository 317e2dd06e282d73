package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
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
	{"./ledger", []string{"./ledger/memory", "./internal/sim"}},
	{"./ledger/storage", []string{"./ledger/memory", "./ledger/sqlite"}},
	{"./ledger/driver", []string{"./ledger/memory"}},
	{"./ledger/memory", nil},
	{"./internal/acts", []string{"./ledger/memory"}},
	{"./internal/beats", []string{"./ledger/memory"}},
	{"./internal/checks", []string{"./ledger/memory"}},
	{"./internal/maintenance", []string{"./ledger/memory"}},
	{"./internal/marks", []string{"./internal/engine"}},
	{"./internal/ranges", []string{"./ledger/memory", "./internal/sim"}},
	{"./internal/flow", []string{"./internal/engine", "./internal/sim"}},
	{"./internal/offsets", []string{"./internal/sim"}},
	{"./internal/locks", []string{"./kafka"}},
	{"./internal/visibility", []string{"./sqs", "./internal/sim"}},
	{"./internal/engine", nil},
	{"./consumer", []string{"./consumer/consumertest"}},
	{"./idempotency", []string{"./idempotency/httpkey"}},
	{"./idempotency/httpkey", nil},
	{"./replay", nil},
	{"./sqs", []string{"./replay"}}, // which tests its replay sources and targets
	{"./kafka", []string{"./replay"}},
	{"./ledger/sqlite", nil},
	{"./ledger/postgres", nil},
}

// settings are the command's flags.
type settings struct {
	sample  int
	seed    uint64
	budget  time.Duration
	atOnce  int
	again   string
	tests   string
	files   string
	verbose bool
}

func main() {
	var s settings
	flag.IntVar(&s.sample, "sample", 200, "mutants of each package")
	flag.Uint64Var(&s.seed, "seed", 1, "draws the sample")
	flag.DurationVar(&s.budget, "budget", 30*time.Second, "how long the tests are that judge one mutant, together")
	flag.IntVar(&s.atOnce, "at-once", 3, "mutants that are judged at once, and tests that are surveyed")
	flag.StringVar(&s.again, "again", "", "judge only what is printed in this `file`, a former run's output, and write no row: to see whether new tests kill it")
	flag.StringVar(&s.tests, "tests", everyTest, "judge by tests whose names match this `regexp` alone, and write no row: to see at once whether a new test kills")
	flag.StringVar(&s.files, "files", ".*", "only mutants of files whose names match this `regexp`; with -tests")
	flag.BoolVar(&s.verbose, "v", false, "print every mutant, not only those that live or hang")
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

// everyTest matches the names of all tests.
const everyTest = ".*"

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
	wanted, err := regexp.Compile(s.files)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(c candidate) bool { return !wanted.MatchString(c.file) })
	chosen := sample(all, s.sample, s.seed)
	if s.again != "" {
		former, err := os.ReadFile(s.again)
		if err != nil {
			return err
		}
		chosen = printed(all, path, string(former))
	}
	programs, chosen, err := p.build(ctx, tmp, tests, chosen)
	if err != nil {
		return err
	}
	say := func(format string, args ...any) { fmt.Printf("# "+format+"\n", args...) }
	for _, pr := range programs {
		if err := pr.survey(ctx, tmp, s.tests, max(s.budget, 2*time.Minute), s.atOnce, say); err != nil {
			return err
		}
	}
	say("%s: %d of %d mutants, surveyed in %s", path, len(chosen), len(all), time.Since(began).Round(time.Second))
	ends := s.judgeAll(ctx, path, programs, chosen, list)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.report(path, ends)
}

// line is how a mutant is printed, and found again.
func line(path string, m *mutant) string {
	return filepath.ToSlash(filepath.Clean(path)) + "/" + m.String()
}

// printed finds those mutants that a former run printed, as far as their lines have not moved since.
func printed(all []candidate, path, former string) []candidate {
	former += "\n"
	return slices.DeleteFunc(slices.Clone(all), func(c candidate) bool {
		return !strings.Contains(former, " "+line(path, &c.mutant)+"\n    "+c.text+"\n")
	})
}

// judgeAll judges some mutants at once, and prints each as soon as its end is known.
func (s *settings) judgeAll(ctx context.Context, path string, programs []*program, chosen []candidate, list []equivalent) []string {
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
				ends[i] = s.tell(path, &chosen[i].mutant, end, list)
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

// tell prints a mutant that lives, or that merely hangs: a slow machine looks the same. It returns what counts, since one that is
// known to change nothing may live.
func (s *settings) tell(path string, m *mutant, end string, list []equivalent) string {
	if (end == survived || end == unreached) && excuse(list, filepath.ToSlash(filepath.Clean(path)), m) != "" {
		end = equal
	}
	if s.verbose || end == survived || end == unreached || end == hung {
		fmt.Printf("%s %s\n    %s\n", end, line(path, m), m.text)
	}
	return end
}

// report counts the ends, and writes the row of a whole sample.
func (s *settings) report(path string, ends []string) error {
	counts := map[string]int{}
	for _, end := range ends {
		counts[end]++
	}
	dead, alive := counts[killed]+counts[hung], counts[survived]+counts[unreached]
	share := float64(dead) / max(float64(dead+alive), 1)
	fmt.Printf("%s: %d mutants, %d killed, %d hung, %d survived, %d unreached, %d change nothing: %.1f %% die\n", path, len(ends),
		counts[killed], counts[hung], counts[survived], counts[unreached], counts[equal], 100*share)
	if page := reliability.Page(); page != "" && s.again == "" && s.tests == everyTest {
		dir := filepath.ToSlash(filepath.Clean(path))
		if err := reliability.Row(page, "mutation", "`"+strings.TrimPrefix(dir, "./")+"`", strconv.Itoa(len(ends)), strconv.Itoa(dead),
			strconv.Itoa(counts[equal]), strconv.Itoa(alive), fmt.Sprintf("%.1f %%", 100*share), strconv.FormatUint(s.seed, 10), reliability.Today()); err != nil {
			return err
		}
	}
	if share < enough {
		return fmt.Errorf("%s: %.1f %% of the mutants die, want %.0f %%", path, 100*share, 100*enough)
	}
	return nil
}
