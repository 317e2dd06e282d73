package services

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// envChild makes the test binary a child process that does one thing, prints one line and waits to be killed.
const envChild = "SERVICES_TEST_CHILD"

var children = map[string]func(context.Context) (string, error){
	"postgres": func(ctx context.Context) (string, error) {
		s, err := StartPostgres(ctx, PostgresOptions{})
		if err != nil {
			return "", err
		}
		return s.Addr() + " " + s.folder.path, nil
	},
	"elasticmq": func(ctx context.Context) (string, error) {
		s, err := StartElasticMQ(ctx)
		if err != nil {
			return "", err
		}
		return s.Addr() + " " + s.folder.path, nil
	},
	"guard": func(context.Context) (string, error) {
		sleep := exec.Command("sleep", "1000")
		if err := sleep.Start(); err != nil {
			return "", err
		}
		_, err := guard(sleep.Process.Pid)
		return fmt.Sprint(sleep.Process.Pid), err
	},
	"fetch": func(ctx context.Context) (string, error) { return fetch(ctx, tinyBundle()) },
}

func TestMain(m *testing.M) {
	name := os.Getenv(envChild)
	if name == "" {
		os.Exit(m.Run())
	}
	line, err := children[name](context.Background())
	if err != nil {
		line = "error: " + err.Error()
	}
	fmt.Println(line)
	select {} // until killed
}

// child starts the test binary as the named child and returns its line.
func child(t *testing.T, name string, env ...string) (*os.Process, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), envChild+"="+name), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // mostly dead by now
		_ = cmd.Wait()         // "signal: killed"
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.HasPrefix(line, "error: ") {
		t.Fatalf("child %s: %v: %s", name, err, line)
	}
	return cmd.Process, strings.TrimSpace(line)
}

// eventually polls ok until it holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("after 30 s still not: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func listening(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func entries(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
