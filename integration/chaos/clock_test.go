package chaos_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ackledger/ackledger/integration/chaos/plan"
	"github.com/ackledger/ackledger/internal/killpoint"
)

// clockVariable is the environment's variable that says how far a shifted worker's wall clock is off, such as "-1h".
const clockVariable = "ACKLEDGER_CHAOS_CLOCK"

// wallShift is a file that package time of a shifted worker has beside its own.
const wallShift = `package time

import "syscall"

var wallShift = func() int64 {
	text, _ := syscall.Getenv("` + clockVariable + `")
	d, _ := ParseDuration(text)
	return int64(d / Second)
}()
`

// The text of package time in which the wall clock is read, as of Go 1.26. The monotonic clock, by which durations are
// measured, is left alone: a clock that is set wrong does not change it.
const (
	nowReads  = "\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {"
	nowShifts = "\tsec, nsec, mono := runtimeNow()\n\tsec += wallShift\n\tif mono == 0 {"
)

// shiftedTime writes an overlay (https://pkg.go.dev/cmd/go, build flag -overlay) that puts a time.Now in place whose wall
// clock is off, and returns its path. No code of ours has a seam for that, nor do the libraries beside it.
func shiftedTime(goroot, dir string) (string, error) {
	source := filepath.Join(goroot, "src", "time", "time.go")
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), nowReads); n != 1 {
		return "", fmt.Errorf("%s holds the text in which time.Now reads the clock %d times, not once: %q", source, n, nowReads)
	}
	replace := map[string]string{}
	for to, text := range map[string]string{
		source: strings.Replace(string(text), nowReads, nowShifts, 1),
		filepath.Join(filepath.Dir(source), "wallshift.go"): wallShift,
	} {
		from := filepath.Join(dir, filepath.Base(to))
		if err := os.WriteFile(from, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[to] = from
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, overlay, 0o600)
}

// shiftedBinary builds the worker whose clock is off, once. The whole standard library is compiled for it: the first time
// takes minutes of a processor, so the storm of `make test` goes without.
var shiftedBinary = sync.OnceValues(func() (string, error) {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find GOROOT: %w", err)
	}
	dir, err := os.MkdirTemp("", "ackledger-chaos-clock-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
	overlay, err := shiftedTime(strings.TrimSpace(string(goroot)), dir)
	if err != nil {
		return "", err
	}
	return buildWorker("-overlay", overlay)
})

// Package time is what the overlay expects. (Whether a clock is off then is seen in the long run: it takes a build of all.)
func TestTimeCanBeShifted(t *testing.T) {
	t.Parallel()
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shiftedTime(strings.TrimSpace(string(goroot)), t.TempDir()); err != nil {
		t.Error(err)
	}
	if _, err := shiftedTime(t.TempDir(), t.TempDir()); err == nil {
		t.Error("without package time, there is an overlay")
	}
}

// aroundTheClock is how far the clocks of a storm's processes are off, in turn. An odd number of processes apart, so that
// any two that work side by side are likely to differ.
var aroundTheClock = []time.Duration{0, time.Hour, 0, -time.Hour}

// checkClocks sees in the journal that the clocks of an arm's processes are as far off as they were told.
func (a *arm) checkClocks(began, ended time.Time) {
	a.t.Helper()
	text, err := os.ReadFile(a.journal)
	if err != nil {
		a.t.Error(err)
		return
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		stamp, rest, _ := strings.Cut(lines.Text(), " ")
		process, _, _ := strings.Cut(rest, " ")
		nanos, err := strconv.ParseInt(stamp, 10, 64)
		off := a.crew.clock(process)
		if at := time.Unix(0, nanos).Add(-off); err != nil || at.Before(began.Add(-time.Minute)) || at.After(ended.Add(time.Minute)) {
			a.t.Errorf("%s, whose clock is to be %s off, began a handler at %s (%v)", process, off, time.Unix(0, nanos), err)
			return
		}
	}
}

// Three workers share a queue, one an hour ahead, one an hour behind. Nobody takes what a living one has in hand; the one
// ahead is killed, and what it had is taken over after its lease, by the database's clock, not an hour later.
func TestClocksAnHourOff(t *testing.T) {
	needLong(t, "it compiles the standard library")
	scenario(t, "three workers of a queue have clocks that are an hour ahead, right, and an hour behind")
	const n = 300
	began := time.Now()
	a := lonelyArm(t, "sqs", "postgres")
	a.crew.orders.Lease = 10 * time.Second // a busy machine is to lose none
	if err := a.send(t.Context(), n, func(i int) string { return fmt.Sprintf("%s %09d", plan.Fine, i) }); err != nil {
		t.Fatal(err)
	}
	a.crew.clocks = []time.Duration{0, time.Hour, -time.Hour}
	ahead := a.crew.start(killpoint.BeforeEffect, n/10)
	a.crew.start("", 0)
	a.crew.start("", 0)
	eventually(t, 2*time.Minute, a.progress)
	eventually(t, time.Minute, a.left)
	if a.crew.clock(ahead.name) != time.Hour || !ended(ahead) {
		t.Fatalf("%s is not the one ahead, or was not killed", ahead.name)
	}
	begins, err := readJournal(a.journal)
	if err != nil {
		t.Fatal(err)
	}
	for body, b := range begins {
		if len(b) > 2 || len(b) == 2 && b[0].process != ahead.name {
			t.Errorf("%q was begun by %v, although all but %s lived", body, b, ahead.name)
		}
	}
	a.crew.dismissAll()
	if a.crew.gaveUp > 0 {
		t.Errorf("%d workers ended by themselves", a.crew.gaveUp)
	}
	a.verify()
	a.checkClocks(began, time.Now())
}
