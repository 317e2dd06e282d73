package services

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// tinyBundle is one small jar. It notes each fetch in the file that the environment names.
func tinyBundle() bundle {
	pom := strings.Replace(`<project><modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>tiny</artifactId>
<version>1</version><packaging>pom</packaging><dependencies><dependency><groupId>org.slf4j</groupId>
<artifactId>slf4j-api</artifactId><version>1.7.36</version></dependency></dependencies>PLUGIN</project>`, "PLUGIN", pluginOf("kafka"), 1)
	return bundle{name: "tiny", version: "1", pom: []byte(pom), env: EnvKafka, finish: func(jars, into string) error {
		f, err := os.OpenFile(os.Getenv("SERVICES_TEST_FETCHES"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString("fetched\n")
		return errors.Join(err, f.Close(), os.Rename(filepath.Join(jars, "slf4j-api-1.7.36.jar"), filepath.Join(into, "slf4j.jar")))
	}}
}

// pluginOf is the pinned Maven plugin, as it stands in a server's pom.
func pluginOf(name string) string {
	b, err := loadBundle(name, "")
	if err != nil {
		panic(err)
	}
	_, rest, _ := strings.Cut(string(b.pom), "</dependencies>")
	plugin, _, _ := strings.Cut(rest, "</project>")
	return plugin
}

// Several test processes meet an empty cache at once: one fetches, all use it.
func TestConcurrentFetches(t *testing.T) {
	cache := t.TempDir()
	count := filepath.Join(t.TempDir(), "fetches")
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("SERVICES_TEST_FETCHES", count)
	// A process that was killed while it fetched left this behind.
	left := filepath.Join(cache, "ackledger", ".fetch-left")
	if err := os.MkdirAll(filepath.Join(left, "jars"), 0o755); err != nil {
		t.Fatal(err)
	}
	dirs := make([]string, 4)
	var wg sync.WaitGroup
	for i := range dirs {
		wg.Go(func() {
			if i < 2 {
				_, dirs[i] = child(t, "fetch")
				return
			}
			var err error
			if dirs[i], err = fetch(t.Context(), tinyBundle()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, dir := range dirs {
		if dir != dirs[0] {
			t.Errorf("folders differ: %s and %s", dir, dirs[0])
		}
	}
	if _, err := os.Stat(filepath.Join(dirs[0], "slf4j.jar")); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(count); err != nil || string(got) != "fetched\n" {
		t.Errorf("want one fetch, got %q (%v)", got, err)
	}
	if found := entries(t, filepath.Join(cache, "ackledger", ".fetch-*")); len(found) > 0 {
		t.Errorf("left behind: %v", found)
	}
}

// A changed pom (another dependency, another platform) is not answered from the cache of the old one.
func TestFolderFollowsPomAndPlatform(t *testing.T) {
	b := tinyBundle()
	seen := map[string]bool{b.folder(): true}
	b.pom = append(b.pom, ' ')
	seen[b.folder()] = true
	b.props = []string{"-Dplatform=linux-amd64"}
	seen[b.folder()] = true
	if len(seen) != 3 {
		t.Errorf("want 3 folders, got %v", seen)
	}
}

func TestFailedFetchLeavesNothing(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	b := tinyBundle()
	broken := errors.New("broken archive")
	b.finish = func(string, string) error { return broken }
	if _, err := fetch(t.Context(), b); !errors.Is(err, broken) {
		t.Fatalf("want the cause, got %v", err)
	}
	if found := entries(t, filepath.Join(cache, "ackledger", "tiny*")); len(found) > 0 {
		t.Errorf("a failed fetch is in the cache: %v", found)
	}
}

func TestLockIsGivenUpOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lockFile(ctx, path); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), path) {
		t.Errorf("want a deadline that names %s, got %v", path, err)
	}
	unlock()
	again, err := lockFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// One line says what to install, and that a running server will do as well.
func TestMissingTools(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	t.Setenv("JAVA_HOME", "")
	var all []error
	for name, start := range map[string]func() error{
		EnvPostgres: func() error { _, err := StartPostgres(t.Context(), PostgresOptions{}); return err },
		EnvKafka:    func() error { _, err := StartKafka(t.Context(), KafkaOptions{}); return err },
		EnvSQS:      func() error { _, err := StartElasticMQ(t.Context()); return err },
	} {
		err := start()
		all = append(all, err)
		missing, ok := errors.AsType[*MissingToolError](err)
		if !ok {
			t.Errorf("%s: want a *MissingToolError, got %v", name, err)
			continue
		}
		for _, want := range []string{"java", "mvn", "install Java 17", "Apache Maven", name} {
			if !strings.Contains(missing.Error(), want) {
				t.Errorf("%s: %q is not in %q", name, want, missing)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than one line: %q", name, err)
		}
	}
	text := JoinErrors(all...).Error()
	for _, want := range []string{"java", "mvn", "install Java 17", "Apache Maven", EnvPostgres, EnvKafka, EnvSQS} {
		if strings.Count(text, want) < 1 || strings.Contains(text, "\n") {
			t.Errorf("together: want one line with %q, got %q", want, text)
		}
	}
	if strings.Count(text, "Apache Maven") != 1 {
		t.Errorf("said more than once: %q", text)
	}
	if other := errors.New("x"); !errors.Is(JoinErrors(append(all, other)...), other) {
		t.Error("another error is gone")
	}
}

func TestUntarStaysInside(t *testing.T) {
	for _, name := range []string{"../escaped", "link/escaped"} {
		var packed bytes.Buffer
		w := tar.NewWriter(&packed)
		if name[0] == 'l' {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "link", Linkname: ".."}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "into")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := untar(&packed, dir); err == nil {
			t.Errorf("%s: unpacked", name)
		}
		if found := entries(t, filepath.Join(dir, "..", "escaped")); len(found) > 0 {
			t.Errorf("%s: written outside: %v", name, found)
		}
	}
}
