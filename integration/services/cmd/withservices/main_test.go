package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ackledger/ackledger/integration/services"
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
		if got, err := run([]string{"sh", "-c", script}, nil); got != want || err != nil {
			t.Errorf("%s: want %d, got %d, %v", script, want, got, err)
		}
	}
	if got, err := run([]string{"/no/such/program"}, nil); got != 127 || err == nil {
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
	code, err := run([]string{"sh", "-c", `trap : TERM; sh -c '` + inner + `' & wait; wait; exit 9`}, signals)
	if code != 9 || err != nil {
		t.Errorf("want 9, got %d, %v", code, err)
	}
	if !exists(told) {
		t.Error("the child of the command was not told")
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
