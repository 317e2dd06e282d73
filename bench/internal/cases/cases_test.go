package cases_test

import (
	"os"
	"testing"
	"time"

	"github.com/ackledger/ackledger/bench/internal/cases"
	"github.com/ackledger/ackledger/bench/internal/suite"
	"github.com/ackledger/ackledger/internal/services"
)

func TestMain(m *testing.M) {
	cases.Child()
	os.Exit(m.Run())
}

// Every row works: with few messages, on real servers, and leaves nothing that could not be cleaned up.
func TestEveryCase(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it needs servers and some minutes; make test-long runs it")
	}
	services.NeedServers(t)
	all := cases.All()
	runner := &suite.Runner{Mode: suite.Smoke, Rounds: 1, Progress: func(_ int, c suite.Case, res suite.Result, took time.Duration, err error) {
		if err != nil {
			t.Errorf("%s: %v", c.ID(), err)
		}
		if v, ok := res[c.MainValue()]; err == nil && (!ok || v <= 0) {
			t.Errorf("%s: its main value %q is %v", c.ID(), c.MainValue(), res)
		}
		t.Logf("%s: %v in %v", c.ID(), res, took.Round(time.Millisecond))
	}}
	if _, err := runner.Run(t.Context(), all); err != nil {
		t.Error(err)
	}
}

// What the goals refer to exists: a row that is renamed takes its goals along.
func TestGoalsNameCasesThatExist(t *testing.T) {
	out := &suite.Outcome{Rounds: 1}
	for _, c := range cases.All() {
		if c.Group == "" || c.Name == "" || c.Note == "" || c.N.Full < c.N.Quick || c.N.Quick < 1 {
			t.Errorf("%s: incomplete: %+v", c.ID(), c)
		}
		every := suite.Result{}
		for _, name := range cases.Values() {
			every[name] = 1
		}
		out.Rows = append(out.Rows, &suite.Row{Case: c, Rounds: []suite.Result{every}})
	}
	for _, v := range suite.Judge(out, cases.Goals()) {
		if !v.Known() {
			t.Errorf("%q needs a case or a value that is not there", v.Goal.Text)
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range cases.All() {
		if seen[c.ID()] {
			t.Errorf("two cases are called %s", c.ID())
		}
		seen[c.ID()] = true
	}
}
