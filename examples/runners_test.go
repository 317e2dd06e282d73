package examples_test

import (
	"database/sql"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ackledger/ackledger/examples/internal/local"
)

// kill ends the program as the system does with one that has too much memory.
func (p *program) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	<-p.ended
}

// rowsOf counts the rows of a table in a program's ledger.
func rowsOf(t *testing.T, path, table string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A host dies while it makes a report, and another one that waits for that makes it. A third one that comes later gets it.
func TestAHostDiesInItsTick(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), local.Kept)
	args := []string{"-ledger", path, "-every", "100000h"} // all of them have the same tick
	first := start(t, nil, binary(t, "cron"), append(args, "-work", "1m", "-lease", "5s")...)
	first.waitLine("making a report")
	second := start(t, nil, binary(t, "cron"), append(args, "-lease", "5s")...)
	second.logs = true
	first.kill()
	second.waitLine("host 1: report")
	third := start(t, nil, binary(t, "cron"), args...)
	third.logs = true
	third.waitLine("host 1: report")
	for _, p := range []*program{second, third} {
		p.signal()
	}
	if made := rowsOf(t, path, "example_report"); !slices.Contains(second.end(), "making a report") || slices.Contains(third.end(), "making a report") || made != 1 {
		t.Errorf("%d reports; the second host: %q; the third: %q", made, second.output(), third.output())
	}
}

// A process dies in a task, or between a task and its removal: the task comes again, and is charged once.
func TestAProcessDiesWithATask(t *testing.T) {
	for name, c := range map[string]struct {
		slow, line string // which of its times is long, and where it is killed
		again      bool   // it is done by a later delivery
		number     string // of its charge; in between is task-2, which was visible before
	}{
		"in the task":        {"-work", "task-1, delivery 1: charging", true, "2"},
		"before its removal": {"-removal", "task-1, delivery 1: charge 1", false, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			first := start(t, nil, binary(t, "task-queue"), "-dir", dir, "-lease", "5s", c.slow, "1m")
			first.waitLine(c.line)
			first.kill()
			second := start(t, nil, binary(t, "task-queue"), "-dir", dir, "-lease", "5s")
			second.logs = true
			all := strings.Join(second.end(), "\n")
			if again := regexp.MustCompile(`task-1, delivery \d+: charging`).MatchString(all); again != c.again {
				t.Errorf("charged again: %t\n%s", again, all)
			}
			charges := rowsOf(t, filepath.Join(dir, local.Kept), "example_charge")
			if done := regexp.MustCompile(`task-1, delivery \d+: charge ` + c.number); charges != 2 || !done.MatchString(all) {
				t.Errorf("%d charges\n%s", charges, all)
			}
		})
	}
}
