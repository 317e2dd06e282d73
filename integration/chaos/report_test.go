package chaos_test

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"
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
