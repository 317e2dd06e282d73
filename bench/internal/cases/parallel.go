package cases

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ackledger/ackledger/bench/internal/suite"
)

//go:embed parallelconsumer/pom.xml
var parallelPom []byte

//go:embed parallelconsumer/Main.java
var parallelMain []byte

const parallelHeap = "1g"

// parallelCase is one row of parallel-consumer.
func parallelCase(group, name string, n suite.Size, order string, concurrency int, handler time.Duration) suite.Case {
	return suite.Case{Group: group, Name: name, N: n, Once: true, Run: parallelConsumer(order, concurrency, handler),
		Note: fmt.Sprintf("Java, heap "+parallelHeap+", default settings but maxConcurrency %d (the default is 16, the README sets 1,000); no ledger: a crash "+
			"repeats handlers. The first fifth warms the JVM up and is not timed, nor is its commit, every 5 s", concurrency)}
}

// parallelConsumer runs the Java program beside this file.
func parallelConsumer(order string, concurrency int, handler time.Duration) func(context.Context, *suite.Run) (suite.Result, error) {
	return func(ctx context.Context, r *suite.Run) (suite.Result, error) {
		c, topic, err := newTopic(ctx, r, r.N)
		if err != nil {
			return nil, err
		}
		dir, err := suite.Once(r.All, "parallel-consumer", func() (string, func() error, error) { return parallelBuild(ctx) })
		if err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, "java", "-Xmx"+parallelHeap, "-cp", filepath.Join(dir, "*")+string(os.PathListSeparator)+filepath.Join(dir, "main"), "Main",
			strings.Join(c.brokers, ","), topic, c.newGroup(r), strconv.Itoa(r.N), order, strconv.Itoa(concurrency), strconv.FormatInt(handler.Milliseconds(), 10))
		stdin, err := cmd.StdinPipe() // it ends when this end closes, so also when we are killed
		if err != nil {
			return nil, err
		}
		defer stdin.Close()
		var out, problems bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &problems
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("parallel-consumer: %w: %s", err, problems.String())
		}
		number, _, _ := strings.Cut(out.String(), " ")
		rate, err := strconv.ParseFloat(number, 64)
		return suite.Result{suite.Rate: rate}, err
	}
}

// parallelBuild returns a folder with the jars and the compiled program. It lies in the user's cache, under a name made
// of its sources, and appears there by one rename.
func parallelBuild(ctx context.Context) (dir string, undo func() error, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", nil, err
	}
	cache = filepath.Join(cache, "ackledger")
	dir = filepath.Join(cache, fmt.Sprintf("parallel-consumer-%x", sha256.Sum256(append(bytes.Clone(parallelPom), parallelMain...))))[:len(cache)+1+26]
	if _, err := os.Stat(dir); err == nil {
		return dir, nil, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", nil, err
	}
	temp, err := os.MkdirTemp(cache, "parallel-consumer-new-*")
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	libs, main := filepath.Join(temp, "out"), filepath.Join(temp, "out", "main")
	if err := errors.Join(os.MkdirAll(main, 0o755), os.WriteFile(filepath.Join(temp, "pom.xml"), parallelPom, 0o644),
		os.WriteFile(filepath.Join(temp, "Main.java"), parallelMain, 0o644)); err != nil {
		return "", nil, err
	}
	for _, args := range [][]string{
		{"mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=" + libs},
		{"javac", "-cp", filepath.Join(libs, "*"), "-d", main, "Main.java"},
	} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir = temp
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", nil, fmt.Errorf("%s (a JDK of Java 17 and Maven are needed): %w: %s", args[0], err, out)
		}
	}
	if err := os.Rename(libs, dir); err != nil && !errors.Is(err, os.ErrExist) {
		return "", nil, err
	}
	return dir, nil, nil
}
