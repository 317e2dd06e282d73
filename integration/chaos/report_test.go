package chaos_test

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/reliability"
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
	name                                                           string
	messages, doubt, begun, processes, gaveUp, samples, away, heap int
	found                                                          tally
}

// text is the report in Markdown.
func (r *report) text() string {
	var b strings.Builder
	messages, begun, samples, faults := 0, 0, 0, 0
	var all tally
	for _, a := range r.arms {
		messages, begun, samples = messages+a.messages, begun+a.begun, samples+a.samples
		all.lost, all.twice = all.lost+a.found.lost, all.twice+a.found.twice
		all.fine, all.plain, all.repeated = all.fine+a.found.fine, all.plain+a.found.plain, all.repeated+a.found.repeated
		all.stepped, all.givenBack = all.stepped+a.found.stepped, all.givenBack+a.found.givenBack
	}
	for _, n := range r.faults {
		faults += n
	}
	fmt.Fprintf(&b, "Run of %s UTC, seed %d: faults for %s, %s in all until everything was done and checked; %d CPUs, shared.\n\n",
		r.began.UTC().Format("2006-01-02 15:04"), r.seed, r.lasts, r.took.Round(time.Second), runtime.NumCPU())
	fmt.Fprintf(&b, "%d messages, %d handlers begun, %d faults, %d samples of committed offsets. Lost: %d. Of %d with their effect "+
		"InTx done twice: %d. Of %d without, as at-least-once has it: %d. Done after outside calls: %d; their recorded steps were given "+
		"back %d times.\n\n",
		messages, begun, faults, samples, all.lost, all.fine, all.twice, all.plain, all.repeated, all.stepped, all.givenBack)
	b.WriteString("| fault | times |\n|---|---|\n")
	for _, kind := range slices.Sorted(maps.Keys(r.faults)) {
		fmt.Fprintf(&b, "| %s | %d |\n", kind, r.faults[kind])
	}
	b.WriteString("\n| worker | messages | in doubt whether sent | handlers begun | processes | ended by themselves with an error " +
		"| offset samples | no sample, a server was away | archived by the crash limit | dead letters | not sent, in the archive alone " +
		"| largest heap, MiB |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, a := range r.arms {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d |\n", a.name, a.messages, a.doubt, a.begun,
			a.processes, a.gaveUp, a.samples, a.away, a.found.spared, a.found.doomed, a.found.unsent, a.heap)
	}
	return b.String()
}

// scenario notes in docs/reliability.md that a test with servers or disks of its own has passed, when it ends.
func scenario(t *testing.T, what string) {
	t.Helper()
	page := reliability.Page()
	if page == "" {
		return
	}
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		if err := reliability.Row(page, "scenarios", what, reliability.Today()); err != nil {
			t.Error(err)
		}
	})
}
