package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	only := flag.String("only", "", "numbers of pitfalls with commas between; empty: all, and the guards of the model")
	pkg := flag.String("package", "", "run the entries of this package alone, such as ./ledger/sqlite")
	simulated := flag.Bool("sim", false, "judge what is in the parts that the simulator drives by the simulator alone; the page stays as it is")
	verbose := flag.Bool("v", false, "print what each test wrote without its guard")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *only, *pkg, *simulated, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only, pkg string, simulated, verbose bool) error {
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("finding the module: %w", err)
	}
	root := strings.TrimSpace(string(dir))
	all, err := readLists(root)
	if err != nil {
		return err
	}
	chosen, err := choose(all, only, pkg)
	if err != nil {
		return err
	}
	if simulated {
		chosen = bySimulator(chosen)
	}
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	r := &runner{root: root, tmp: tmp, page: !simulated}
	var packages []string
	groups := map[string][]entry{}
	for _, e := range chosen {
		if groups[e.pkg] == nil {
			packages = append(packages, e.pkg)
		}
		groups[e.pkg] = append(groups[e.pkg], e)
	}
	var failures []error
	for _, p := range packages {
		failures = append(failures, r.group(ctx, p, groups[p], verbose))
		if ctx.Err() != nil {
			break
		}
	}
	if !simulated && only == "" && (pkg == "" || filepath.Clean(pkg) == filepath.Clean(modelPackage)) {
		failures = append(failures, model(ctx, root))
	}
	return errors.Join(failures...)
}

// model enters what the model's test says of its rules in the page.
func model(ctx context.Context, root string) error {
	rows, err := rules(ctx, root)
	if err != nil {
		return err
	}
	all, err := readLists(root)
	if err != nil {
		return err
	}
	fmt.Printf("the model: a promise breaks without each of %d rules\n", strings.Count(rows, "\n"))
	return keep(filepath.Join(root, "docs/pitfalls.md"), all, nil, rows)
}

// choose returns the entries that the flags name.
func choose(all []entry, only, pkg string) ([]entry, error) {
	chosen := slices.Clone(all)
	if only != "" {
		chosen = nil
		for text := range strings.SplitSeq(only, ",") {
			number, err := strconv.Atoi(strings.TrimSpace(text))
			others := slices.DeleteFunc(slices.Clone(all), func(e entry) bool { return e.number != number })
			if err != nil || len(others) == 0 {
				return nil, fmt.Errorf("-only: %q is no pitfall of the list", text)
			}
			chosen = append(chosen, others...)
		}
	}
	if pkg != "" {
		chosen = slices.DeleteFunc(chosen, func(e entry) bool { return filepath.Clean(e.pkg) != filepath.Clean(pkg) })
	}
	if len(chosen) == 0 && filepath.Clean(pkg) != filepath.Clean(modelPackage) {
		return nil, fmt.Errorf("no pitfall of package %s is chosen", pkg)
	}
	return chosen, nil
}

// driven are the parts of the code that the simulator drives.
var driven = []string{"internal/flow/", "internal/locks/", "internal/offsets/", "internal/visibility/", "internal/ranges/", "ledger/decide.go"}

// bySimulator chooses the entries whose guards are in the parts that the simulator drives, to be judged by it.
func bySimulator(all []entry) (chosen []entry) {
	for _, e := range all {
		outside := slices.ContainsFunc(e.edits, func(x edit) bool {
			return !slices.ContainsFunc(driven, func(part string) bool { return strings.HasPrefix(x.file, part) })
		})
		if !outside && len(e.edits) > 0 {
			e.pkg, e.test = "./internal/sim", "TestWorldsKeepTheirPromises"
			chosen = append(chosen, e)
		}
	}
	return chosen
}

// group runs the entries of one package and enters each outcome in the page at once.
func (r *runner) group(ctx context.Context, pkg string, entries []entry, verbose bool) error {
	took, err := r.guarded(ctx, pkg, entries)
	if err != nil {
		return err
	}
	var failures []error
	for _, e := range entries {
		result := byDesign + ": " + e.design
		var o outcome
		if e.design == "" {
			if result, o, err = r.unguarded(ctx, e, took[e.test]); err != nil {
				failures = append(failures, err)
				continue
			}
		}
		fmt.Printf("%02d %-9s %5.1fs (%.1fs with the guard)  %s %s\n",
			e.number, result, o.took.Seconds(), took[e.test].Round(time.Millisecond).Seconds(), e.pkg, e.test)
		if verbose {
			fmt.Println(tail(o.output))
		}
		if result == survives {
			failures = append(failures, fmt.Errorf("pitfall %02d: %s passes without its guard (%s)", e.number, e.test, e.guard))
		}
		if !r.page {
			continue
		}
		if err := keepIn(r.root, map[string]string{e.id(): result}); err != nil {
			return err
		}
	}
	return errors.Join(failures...)
}
