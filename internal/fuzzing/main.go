package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ackledger/ackledger/internal/reliability"
)

func main() {
	lasts := flag.Duration("time", time.Minute, "how `long` each target runs")
	atOnce := flag.Int("at-once", 1, "how many targets run at a time, each in one process")
	only := flag.String("only", "", "the targets whose name, such as ./sqs/FuzzNames, has this `text`; all if empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *only, *lasts, max(*atOnce, 1)); err != nil {
		fmt.Fprintln(os.Stderr, "fuzzing:", err)
		os.Exit(1)
	}
}

// target is one fuzz function.
type target struct{ pkg, name string }

func (t target) String() string { return t.pkg + "/" + t.name }

func run(ctx context.Context, only string, lasts time.Duration, atOnce int) error {
	found, err := targets(".")
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	failures := make([]error, len(found))
	for i, t := range found {
		if !strings.Contains(t.String(), only) {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() == nil {
				failures[i] = t.fuzz(ctx, lasts, atOnce)
			}
		})
	}
	all.Wait()
	return errors.Join(append(failures, ctx.Err())...)
}

var declared = regexp.MustCompile(`(?m)^func (Fuzz\w*)\(`)

// targets finds the fuzz functions below a folder, also those of other modules there.
func targets(root string) (found []target, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range declared.FindAllSubmatch(text, -1) {
			found = append(found, target{"./" + filepath.ToSlash(filepath.Dir(path)), string(m[1])})
		}
		return nil
	})
	return found, err
}

// fuzz runs a target and keeps what it came to, unless it was stopped before its time.
func (t target) fuzz(ctx context.Context, lasts time.Duration, atOnce int) error {
	fmt.Println(t, "begins")
	began := time.Now()
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", lasts.String(), "-parallel", "1", ".")
	cmd.Dir = t.pkg // its module is the one that it lies in
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.CombinedOutput()
	inputs := executions(string(out))
	if err != nil || inputs == "" {
		fmt.Println(t, "failed")
		return fmt.Errorf("%s: %w\n%s", t, errors.Join(err, ctx.Err()), out)
	}
	fmt.Printf("%s: %s inputs in %s\n", t, inputs, time.Since(began).Round(time.Second))
	if page := reliability.Page(); page != "" {
		return reliability.Row(page, "fuzzing", t.String(), reliability.Today(), lasts.String(), fmt.Sprint(atOnce), inputs)
	}
	return nil
}

var executed = regexp.MustCompile(`fuzz: elapsed: \S+, execs: (\d+)`)

// executions is how many inputs a run says that it has tried, at its end.
func executions(out string) string {
	all := executed.FindAllStringSubmatch(out, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1][1]
}
