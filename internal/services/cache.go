package services

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// versions holds the one place where each server's version is written.
//
//go:embed */pom.xml */package.json */package-lock.json
var versions embed.FS

// bundle is what Maven or npm fetches for one server.
type bundle struct {
	name    string // folder of the pom.xml or package.json: kafka, postgres18, …
	version string
	pom     []byte
	props   []string          // what is given to Maven beside the pom: -Dplatform=…
	npm     map[string][]byte // instead of the pom: package.json and its lock, by which npm fetches
	env     string            // the variable that names a server instead, for error messages
	// finish turns the folder of fetched jars into the folder that is kept. Nil keeps the jars.
	finish func(jars, into string) error
}

func loadBundle(name, env string) (bundle, error) {
	pom, err := versions.ReadFile(name + "/pom.xml")
	if err != nil {
		return bundle{}, fmt.Errorf("services: no pom.xml for %q: %w", name, err)
	}
	var project struct {
		Version string `xml:"version"`
	}
	if err := xml.Unmarshal(pom, &project); err != nil {
		return bundle{}, fmt.Errorf("services: %s/pom.xml: %w", name, err)
	}
	if project.Version == "" {
		return bundle{}, fmt.Errorf("services: %s/pom.xml has no version", name)
	}
	return bundle{name: name, version: project.Version, pom: pom, env: env}, nil
}

// loadNPM is loadBundle for a server that npm fetches.
func loadNPM(name, env string) (bundle, error) {
	b := bundle{name: name, env: env, npm: map[string][]byte{}}
	for _, file := range []string{"package.json", "package-lock.json"} {
		text, err := versions.ReadFile(name + "/" + file)
		if err != nil {
			return bundle{}, fmt.Errorf("services: no %s for %q: %w", file, name, err)
		}
		b.npm[file] = text
	}
	var project struct{ Version string }
	if err := json.Unmarshal(b.npm["package.json"], &project); err != nil {
		return bundle{}, fmt.Errorf("services: %s/package.json: %w", name, err)
	}
	if project.Version == "" {
		return bundle{}, fmt.Errorf("services: %s/package.json has no version", name)
	}
	b.version = project.Version
	return b, nil
}

// folder names the bundle in the cache. The hash covers what the version does not say (a dependency beside the server,
// the platform), so that a changed pom is never answered from the cache.
func (b bundle) folder() string {
	h := sha256.New()
	h.Write(b.pom)
	for _, p := range b.props {
		fmt.Fprintf(h, "\x00%s", p)
	}
	if b.npm != nil {
		fmt.Fprintf(h, "\x00%s\x00%s\x00%s", b.npm["package-lock.json"], runtime.GOOS, runtime.GOARCH)
	}
	return fmt.Sprintf("%s-%s-%x", b.name, b.version, h.Sum(nil)[:4])
}

// cacheRoot is ${XDG_CACHE_HOME:-~/.cache}/ackledger on Linux and ~/Library/Caches/ackledger on macOS.
func cacheRoot() (string, error) {
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" {
		var err error
		if base, err = os.UserCacheDir(); err != nil {
			return "", fmt.Errorf("services: no cache folder (set XDG_CACHE_HOME or HOME): %w", err)
		}
	}
	root, err := filepath.Abs(filepath.Join(base, "ackledger"))
	if err != nil {
		return "", fmt.Errorf("services: cache folder %s: %w", base, err)
	}
	return root, os.MkdirAll(root, 0o755)
}

// fetch returns the bundle's folder, from the cache or through Maven. It may be called by any number of goroutines and
// processes at once: one fetches, the others wait.
func fetch(ctx context.Context, b bundle) (string, error) {
	root, err := cacheRoot()
	if err != nil {
		return "", err
	}
	final := filepath.Join(root, b.folder())
	if isDir(final) {
		return final, nil
	}
	// One lock for all bundles: Maven's own repository is not made for concurrent writers.
	unlock, err := lockFile(ctx, filepath.Join(root, "fetch.lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if isDir(final) {
		return final, nil
	}
	stale, err := filepath.Glob(filepath.Join(root, ".fetch-*"))
	if err != nil {
		return "", err
	}
	for _, dir := range stale { // left by a process that was killed: we hold the lock
		if err := os.RemoveAll(dir); err != nil {
			return "", err
		}
	}
	work, err := os.MkdirTemp(root, ".fetch-")
	if err != nil {
		return "", err
	}
	done, err := download(ctx, b, work)
	if err == nil {
		err = os.Rename(done, final)
	}
	if err = errors.Join(err, os.RemoveAll(work)); err != nil {
		return "", fmt.Errorf("services: fetch %s %s: %w", b.name, b.version, err)
	}
	return final, nil
}

// download has Maven or npm fetch into work and returns the folder to keep.
func download(ctx context.Context, b bundle, work string) (string, error) {
	from := downloadMaven
	if b.npm != nil {
		from = downloadNPM
	}
	fetched, err := from(ctx, b, work)
	if err != nil || b.finish == nil {
		return fetched, err
	}
	into := filepath.Join(work, "finished")
	if err := os.Mkdir(into, 0o755); err != nil {
		return "", err
	}
	return into, b.finish(fetched, into)
}

// downloadMaven returns the folder of jars.
func downloadMaven(ctx context.Context, b bundle, work string) (string, error) {
	if err := needTools(b.env, toolJava, toolMaven); err != nil {
		return "", err
	}
	pom, jars := filepath.Join(work, "pom.xml"), filepath.Join(work, "jars")
	if err := os.WriteFile(pom, b.pom, 0o644); err != nil {
		return "", err
	}
	args := append([]string{"-q", "-B", "-f", pom, "dependency:copy-dependencies", "-DincludeScope=runtime",
		"-DoutputDirectory=" + jars}, b.props...)
	cmd := exec.CommandContext(ctx, "mvn", args...)
	cmd.Dir = work
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mvn %s: %w\n%s", strings.Join(args, " "), err, lastLines(out))
	}
	return jars, nil
}

// lockFile takes an exclusive lock that the kernel frees when the process ends (flock(2)).
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("services: lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("services: lock %s is held by another process: %w", path, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// lastLines keeps the end of a server's or tool's output, for an error message.
func lastLines(out []byte) string {
	const keep = 25
	lines := strings.Split(strings.TrimSpace(string(bytes.ToValidUTF8(out, []byte("?")))), "\n")
	return strings.Join(lines[max(0, len(lines)-keep):], "\n")
}
