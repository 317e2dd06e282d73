package archtest_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// userModules are the modules that the go.mod of a user with Kafka and PostgreSQL may name. A new one is a cost to each user.
var userModules = []string{
	module,
	"github.com/cespare/xxhash/v2",
	"github.com/go-logr/logr",
	"github.com/go-logr/stdr",
	"github.com/jackc/pgpassfile",
	"github.com/jackc/pgservicefile",
	"github.com/jackc/pgx/v5",
	"github.com/jackc/puddle/v2",
	"github.com/klauspost/compress",
	"github.com/mfridman/interpolate",
	"github.com/pierrec/lz4/v4",
	"github.com/pressly/goose/v3",
	"github.com/sethvargo/go-retry",
	"github.com/twmb/franz-go",
	"github.com/twmb/franz-go/pkg/kadm",
	"github.com/twmb/franz-go/pkg/kmsg",
	"go.opentelemetry.io/auto/sdk",
	"go.opentelemetry.io/otel",
	"go.opentelemetry.io/otel/log",
	"go.opentelemetry.io/otel/metric",
	"go.opentelemetry.io/otel/trace",
	"go.uber.org/multierr",
	"go.uber.org/zap",
	"golang.org/x/sync",
	"golang.org/x/text",
	"golang.org/x/time",
}

const userProgram = `package main

import (
	_ "` + module + `/consumer"
	_ "` + module + `/kafka"
	_ "` + module + `/ledger/postgres"
)

func main() {}
`

// TestUsersGoModNamesTheseModulesOnly tidies a user's module. It asks no network: all modules come from the module cache.
func TestUsersGoModNamesTheseModulesOnly(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.go": userProgram,
		"go.sum":  string(sums),
		"go.mod":  "module example.com/user\n\ngo 1.26.0\n\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + root + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	goMod(t, dir, "tidy")
	var mod struct{ Require []struct{ Path string } }
	if err := json.Unmarshal(goMod(t, dir, "edit", "-json"), &mod); err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, r := range mod.Require {
		named = append(named, r.Path)
		if !slices.Contains(userModules, r.Path) {
			t.Errorf("a user's go.mod names %s, which userModules lacks", r.Path)
		}
	}
	for _, path := range userModules {
		if !slices.Contains(named, path) {
			t.Errorf("userModules has %s, which a user's go.mod no longer names", path)
		}
	}
}

// goMod runs `go mod` in dir without the network and returns what it printed.
func goMod(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"mod"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go mod %v: %v: %s", args, err, stderr.String())
	}
	return out
}
