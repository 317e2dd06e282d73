package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// The outcomes of a run without the guard.
const (
	fails    = "fails"
	hangs    = "hangs"    // the test ran into its time limit
	crashes  = "crashes"  // the test process ended before the test did
	survives = "SURVIVES" // the test passed: it is weak, or this is not its guard
	byDesign = "by design"
	notRun   = "not run"
)

// patience is how long a test may take without its guard, on top of three times what it takes with it.
const patience = 40 * time.Second

// runner builds and runs tests in a folder of its own.
type runner struct {
	root string // of the module
	tmp  string
	page bool // outcomes are entered in docs/pitfalls.md
}

// outcome is what a test process did.
type outcome struct {
	output string
	err    error
	took   time.Duration
}

// guarded runs the tests as the code stands; each must pass. It returns how long each took.
func (r *runner) guarded(ctx context.Context, pkg string, entries []entry) (map[string]time.Duration, error) {
	bin, err := r.build(ctx, pkg, "")
	if err != nil {
		return nil, err
	}
	took := map[string]time.Duration{}
	for _, e := range entries {
		o := r.test(ctx, e, bin, "", 10*time.Minute)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if o.err != nil || !strings.Contains(o.output, "--- PASS: "+e.test+" ") {
			return nil, fmt.Errorf("pitfall %02d: %s does not pass as the code stands (does it need servers?): %w\n%s",
				e.number, e.test, o.err, tail(o.output))
		}
		took[e.test] = o.took
	}
	return took, nil
}

// unguarded runs one test without its guard.
func (r *runner) unguarded(ctx context.Context, e entry, took time.Duration) (string, outcome, error) {
	overlay, err := r.overlay(e)
	if err != nil {
		return "", outcome{}, err
	}
	bin, err := r.build(ctx, e.pkg, overlay)
	if err != nil {
		return "", outcome{}, fmt.Errorf("pitfall %02d, without its guard: %w", e.number, err)
	}
	o := r.test(ctx, e, bin, overlay, patience+3*took)
	if err := ctx.Err(); err != nil {
		return "", o, err
	}
	switch {
	case o.err == nil:
		return survives, o, nil
	case strings.Contains(o.output, "panic: test timed out after") || errors.Is(o.err, context.DeadlineExceeded):
		return hangs, o, nil
	case failed.MatchString(o.output):
		return fails, o, nil
	case crashed.MatchString(o.output) || signalled(o.err):
		return crashes, o, nil
	}
	return "", o, fmt.Errorf("pitfall %02d: %s neither passed nor failed without its guard: %w\n%s", e.number, e.test, o.err, tail(o.output))
}

var (
	failed  = regexp.MustCompile(`(?m)^--- FAIL: `)
	crashed = regexp.MustCompile(`(?m)^(panic|fatal error|SIG[A-Z]+): `) // the Go runtime's last words
)

// signalled says whether a signal ended the process.
func signalled(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

// overlay writes the changed files and returns the path of the overlay that puts them in place.
func (r *runner) overlay(e entry) (string, error) {
	texts, err := e.mutate(r.root)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, text := range texts {
		to := filepath.Join(r.tmp, fmt.Sprintf("%03d_%s", e.number, strings.ReplaceAll(file, "/", "_")))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(r.root, file)] = to
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(r.tmp, fmt.Sprintf("%03d.json", e.number))
	return path, os.WriteFile(path, text, 0o600)
}

// build compiles a package's tests; overlay may be empty.
func (r *runner) build(ctx context.Context, pkg, overlay string) (string, error) {
	bin := filepath.Join(r.tmp, strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "_")+".test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-ldflags=-s -w", "-o", bin, ".") // linked in half the time
	cmd.Dir, cmd.Env = filepath.Join(r.root, pkg), environment(overlay)                   // of whatever module it is
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s does not build: %w\n%s", pkg, err, tail(string(out)))
	}
	return bin, nil
}

// test runs one test. It runs in a process group of its own, so that nothing it started outlives it.
func (r *runner) test(ctx context.Context, e entry, bin, overlay string, limit time.Duration) outcome {
	ctx, cancel := context.WithTimeoutCause(ctx, limit+30*time.Second, context.DeadlineExceeded)
	defer cancel()
	pattern := "^" + strings.ReplaceAll(e.test, "/", "$/^") + "$"
	cmd := exec.CommandContext(ctx, bin, "-test.run", pattern, "-test.v", "-test.count=1", "-test.timeout", limit.String())
	cmd.Dir, cmd.Env = filepath.Join(r.root, e.pkg), environment(overlay)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return outcome{string(out), err, time.Since(began)}
}

// environment lets the overlay reach the programs that a test builds itself, too.
func environment(overlay string) []string {
	if overlay == "" {
		return os.Environ()
	}
	return append(os.Environ(), strings.TrimSpace("GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay))
}

// tail is the end of an output.
func tail(output string) string {
	const most = 4000
	if len(output) > most {
		output = "…" + output[len(output)-most:]
	}
	return strings.TrimSpace(output)
}
