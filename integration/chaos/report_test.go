package chaos_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// The markers between which a run writes.
const (
	reportBegin = "<!-- chaos: this part is written by make chaos -->"
	reportEnd   = "<!-- /chaos -->"
)

// report is what a storm came to.
type report struct {
	seed        uint64
	began       time.Time
	lasts, took time.Duration
	faults      map[string]int
	vain        map[string]int
	arms        []armReport
}

type armReport struct {
	name                                                      string
	messages, begun, processes, gaveUp, samples, spared, heap int
}

// text is the report in Markdown.
func (r *report) text() string {
	var b strings.Builder
	messages, begun, samples, faults := 0, 0, 0, 0
	for _, a := range r.arms {
		messages, begun, samples = messages+a.messages, begun+a.begun, samples+a.samples
	}
	for _, n := range r.faults {
		faults += n
	}
	fmt.Fprintf(&b, "Run of %s UTC, seed %d: faults for %s, %s in all until everything was done and checked; %d CPUs, shared.\n\n",
		r.began.UTC().Format("2006-01-02 15:04"), r.seed, r.lasts, r.took.Round(time.Second), runtime.NumCPU())
	fmt.Fprintf(&b, "%d messages, %d handlers begun, %d faults, %d samples of committed offsets. Lost: 0. Done twice: 0.\n\n",
		messages, begun, faults, samples)
	b.WriteString("| fault | times |\n|---|---|\n")
	for _, kind := range slices.Sorted(maps.Keys(r.faults)) {
		fmt.Fprintf(&b, "| %s | %d |\n", kind, r.faults[kind])
	}
	b.WriteString("\n| worker | messages | handlers begun | processes | ended by themselves with an error | offset samples " +
		"| archived by the crash limit | largest heap, MiB |\n|---|---|---|---|---|---|---|---|\n")
	for _, a := range r.arms {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %d |\n",
			a.name, a.messages, a.begun, a.processes, a.gaveUp, a.samples, a.spared, a.heap)
	}
	return b.String()
}

// write puts the text between the markers of the page, or at its end.
func (r *report) write(path string) error {
	page, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	before, rest, found := strings.Cut(string(page), reportBegin)
	_, after, ended := strings.Cut(rest, reportEnd)
	if found != ended {
		return fmt.Errorf("%s: the markers %q and %q must come as a pair", path, reportBegin, reportEnd)
	}
	if !found {
		before, after = before+"\n", "\n"
	}
	return os.WriteFile(path, []byte(before+reportBegin+"\n"+r.text()+reportEnd+after), 0o644)
}

func TestReportReplacesItsOwnPartAlone(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/page.md"
	if err := os.WriteFile(path, []byte("# Title\n\n"+reportBegin+"\nold\n"+reportEnd+"\nrest\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := report{seed: 5, faults: map[string]int{"process: SIGKILL": 3}}
	for range 2 {
		if err := r.write(path); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "# Title\n\n" + reportBegin + "\n" + r.text() + reportEnd + "\nrest\n"; string(page) != want {
		t.Errorf("the page is\n%s\nwant\n%s", page, want)
	}
}
