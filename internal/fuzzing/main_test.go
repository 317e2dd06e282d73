package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The module's targets are found, and those of other modules in its folders.
func TestTargets(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":             "module m\n",
		"one_test.go":        "package m\n\nfunc FuzzOne(f *testing.F) {}\n\nfunc FuzzTwo(f *testing.F) {}\n",
		"sub/three_test.go":  "package sub\n\nfunc FuzzThree(f *testing.F) {}\n",
		"sub/code.go":        "package sub\n\nfunc FuzzNoTest(f *testing.F) {}\n",
		"other/go.mod":       "module other\n",
		"other/four_test.go": "package other\n\nfunc FuzzFour(f *testing.F) {}\n",
	} {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(root)
	found, err := targets(".")
	if want := []target{{"./.", "FuzzOne"}, {"./.", "FuzzTwo"}, {"./other", "FuzzFour"}, {"./sub", "FuzzThree"}}; err != nil || !slices.Equal(found, want) {
		t.Errorf("targets: %v (%v), want %v", found, err, want)
	}
}

func TestExecutions(t *testing.T) {
	out := "fuzz: elapsed: 0s, gathering baseline coverage: 0/9 completed\nfuzz: elapsed: 3s, execs: 1204 (401/sec), new interesting: 2 (total: 11)\n" +
		"fuzz: elapsed: 6s, execs: 2500 (432/sec), new interesting: 2 (total: 11)\nPASS\n"
	if got := executions(out); got != "2500" {
		t.Errorf("executions: %q, want 2500", got)
	}
	if got := executions("no tests\n"); got != "" {
		t.Errorf("executions of a run of nothing: %q", got)
	}
}
