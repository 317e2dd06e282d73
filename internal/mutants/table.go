package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const preface = `# Pitfalls

Faults that queue consumers have shipped, or that were found by attacking the design of this one. Each is a test here that
fails when its guard is taken out of the code. ` + "`make mutants`" + ` shows that by machine and writes this table: it runs every
test as the code stands, then without the guard (the change is in internal/mutants/list), and fails if a test still
passes.

The last column says what the test did without its guard: it fails, it hangs (and runs into its time limit) or its
process crashes. Where a fault cannot come up by design there is no guard to take out, and the test shows that it does not.

| | pitfall | guard | test | without the guard |
|---|---|---|---|---|
`

const modelPreface = `
## The model

The same for the rules that the model of internal/model knows: in a small world each promise holds, as far as states were
looked at; without the rule one breaks. ` + "`TestEveryGuardIsNeeded`" + ` takes the rules out, and this table is what it said when
` + "`make mutants`" + ` ran it.

| rule | what it says | states | without it | steps to that |
|---|---|---|---|---|
`

// cells are the columns of an entry's row but the last.
func (e entry) cells() string {
	where := strings.TrimPrefix(e.pkg, "./")
	cells := []string{fmt.Sprintf("%02d", e.number), e.story, e.guard, "`" + e.test + "` (" + where + ")"}
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(c, "|", `\|`)
	}
	return "| " + strings.Join(cells, " | ") + " | "
}

// outcomes reads the last column of a table for the entries whose row is still the same.
func outcomes(table string, all []entry) map[string]string {
	known := map[string]string{}
	for line := range strings.Lines(table) {
		for _, e := range all {
			if rest, ok := strings.CutPrefix(line, e.cells()); ok {
				known[e.id()] = strings.TrimSuffix(strings.TrimSpace(rest), " |")
			}
		}
	}
	return known
}

// table is the page for the outcomes known, and for the rows of the model's table.
func table(all []entry, known map[string]string, rules string) string {
	var b strings.Builder
	b.WriteString(preface)
	for _, e := range all {
		result := known[e.id()]
		if result == "" {
			result = notRun
		}
		b.WriteString(e.cells() + result + " |\n")
	}
	b.WriteString(modelPreface + rules)
	return b.String()
}

// rulesOf are the rows of the model's table in a page.
func rulesOf(page string) string {
	_, rules, _ := strings.Cut(page, modelPreface)
	return rules
}

// keepIn enters outcomes in the project's page. It reads the list and the page anew, so that runs side by side keep each
// other's rows.
func keepIn(root string, fresh map[string]string) error {
	all, err := readLists(root)
	if err != nil {
		return err
	}
	return keep(filepath.Join(root, "docs/pitfalls.md"), all, fresh, "")
}

// keep writes a page anew with fresh outcomes, and rules if there are any.
func keep(page string, all []entry, fresh map[string]string, rules string) (err error) {
	f, err := os.OpenFile(page, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("locking %s: %w", page, err)
	}
	old, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	known := outcomes(string(old), all)
	maps.Copy(known, fresh)
	if rules == "" {
		rules = rulesOf(string(old))
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(table(all, known, rules)), 0)
	return err
}
