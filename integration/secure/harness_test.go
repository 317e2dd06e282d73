package secure_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// lines are what a logger writes.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write keeps a line.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// without says that something was logged, and none of the secrets in it.
func (l *lines) without(t *testing.T, secrets ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text.Len() == 0 {
		t.Error("nothing was logged")
	}
	for _, s := range secrets {
		if i := strings.Index(l.text.String(), s); i >= 0 {
			t.Errorf("a secret is in the logs: …%s", l.text.String()[max(0, i-200):i])
		}
	}
}

// program builds the command once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "ackledger-secure-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "ackledger")
	if out, err := exec.Command("go", "build", "-C", "../..", "-ldflags=-w", "-o", path, "./cmd/ackledger").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	built = dir
	return path, nil
})

var built string // the folder of the command; empty: nobody asked for it

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

// said is how a run of the command ended, and all that it wrote.
type said struct {
	code int
	text string
}

func ackledger(t *testing.T, args ...string) said {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	out, err := cmd.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return said{cmd.ProcessState.ExitCode(), string(out)}
}

// eventually polls until ok, or fails with what is not.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	const patience = 90 * time.Second
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("after %s still not: %s", patience, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
