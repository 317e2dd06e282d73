package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ackledger/ackledger/internal/services"
)

// nameAll names all servers, so that none is started.
func nameAll(t *testing.T) {
	for _, env := range []string{services.EnvPostgres, services.EnvPostgres14, services.EnvKafka, services.EnvSQS, services.EnvDynamoDB} {
		t.Setenv(env, "named")
	}
}

func TestExitCode(t *testing.T) {
	nameAll(t)
	for script, want := range map[string]int{
		"exit 0":                               0,
		"exit 3":                               3,
		"kill -9 $$":                           137,
		"no-such-command-here":                 127,
		`test "$ACKLEDGER_TEST_KAFKA" = named`: 0,
	} {
		if got, err := run(servers(), []string{"sh", "-c", script}, nil); got != want || err != nil {
			t.Errorf("%s: want %d, got %d, %v", script, want, got, err)
		}
	}
	if got, err := run(servers(), []string{"/no/such/program"}, nil); got != 127 || err == nil {
		t.Errorf("no such program: got %d, %v", got, err)
	}
}

// The children of the command get the signal too: go test does not hand it on.
func TestSignalReachesTheWholeGroup(t *testing.T) {
	nameAll(t)
	dir := t.TempDir()
	ready, told := filepath.Join(dir, "ready"), filepath.Join(dir, "told")
	inner := `trap "touch ` + told + `; exit 0" TERM; touch ` + ready + `; while :; do sleep 0.05; done`
	signals := make(chan os.Signal, 1)
	go func() {
		for deadline := time.Now().Add(20 * time.Second); !exists(ready) && time.Now().Before(deadline); {
			time.Sleep(10 * time.Millisecond)
		}
		signals <- syscall.SIGTERM
	}()
	code, err := run(servers(), []string{"sh", "-c", `trap : TERM; sh -c '` + inner + `' & wait; wait; exit 9`}, signals)
	if code != 9 || err != nil {
		t.Errorf("want 9, got %d, %v", code, err)
	}
	if !exists(told) {
		t.Error("the child of the command was not told")
	}
}

// A run whose PgBouncer was missing looked like one in which all was tested.
func TestWhatIsMissingIsTold(t *testing.T) {
	nameAll(t)
	file := filepath.Join(t.TempDir(), "missing")
	for _, note := range []string{"no PgBouncer", "a mount", "no PgBouncer"} {
		if code, err := run(servers(), []string{"sh", "-c", `test -n "$ACKLEDGER_TEST_MISSING" && echo "` + note + `" | tee "$ACKLEDGER_TEST_MISSING" >> ` + file}, nil); code != 0 || err != nil {
			t.Fatalf("%d, %v", code, err)
		}
	}
	var out strings.Builder
	if err := tellMissing(&out, file); err != nil || !strings.HasSuffix(out.String(), ":\nwithservices: NOT TESTED: a mount\nwithservices: NOT TESTED: no PgBouncer\n") {
		t.Errorf("%v, %q", err, out.String())
	}
	out.Reset()
	if err := tellMissing(&out, file+".none"); err != nil || out.Len() > 0 {
		t.Errorf("nothing is missing: %v, %q", err, out.String())
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// What -only names is started, in its order; what it misspells is named.
func TestOnly(t *testing.T) {
	for only, want := range map[string]int{"": 5, "kafka": 1, "sqs,postgres": 2} {
		if got, err := choose(only); len(got) != want || err != nil || only == "sqs,postgres" && got[1].env != services.EnvPostgres {
			t.Errorf("-only %q: %+v, %v", only, got, err)
		}
	}
	if _, err := choose("kafka,rabbit"); err == nil || !strings.Contains(err.Error(), `"rabbit"`) {
		t.Errorf("-only kafka,rabbit: %v", err)
	}
}
