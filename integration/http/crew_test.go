package http_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ackledger/ackledger/integration/http/plan"
	"github.com/ackledger/ackledger/internal/killpoint"
)

// binaries is the folder of the program that is killed.
var binaries string

func TestMain(m *testing.M) {
	var err error
	if binaries, err = os.MkdirTemp("", "ackledger-http-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(binaries) // a temporary folder
	os.Exit(code)
}

// program builds the server, once.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binaries, "server")
	out, err := exec.Command("go", "build", "-tags", "killpoints", "-ldflags=-w", "-o", path, "./server").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("build the server: %w\n%s", err, out)
	}
	return path, err
})

// patience bounds what must come to pass sooner or later.
const patience = time.Minute

// server is one process.
type server struct {
	t       *testing.T
	name    string
	address string
	cmd     *exec.Cmd
	orders  io.Closer     // its standard input: its end is the order to drain
	said    chan string   // the lines that it prints
	log     *lines        // what it logs
	done    chan struct{} // closed when it has ended
}

// started numbers the processes.
var started atomic.Int64

// start starts a process, which is killed when it first comes by a step (empty: it is not), and waits until it is ready. At the test's end it
// drains, if it lives.
func start(t *testing.T, d *database, step killpoint.Step, stop bool) *server {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, name: fmt.Sprintf("server-%d", started.Add(1)), said: make(chan string, 10), log: new(lines), done: make(chan struct{})}
	orders, err := (&plan.Orders{Name: s.name, Store: d.store, Database: d.where, Lease: lease, Stop: stop}).Environment()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(path)
	s.cmd.Env = append(os.Environ(), orders)
	if step != "" {
		s.cmd.Env = append(s.cmd.Env, fmt.Sprintf("%s=%s@1", killpoint.Variable, step))
	}
	s.cmd.Stdout, s.cmd.Stderr = &lines{each: func(line string) { s.said <- line }}, s.log
	if s.orders, err = s.cmd.StdinPipe(); err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = s.cmd.Wait() // ProcessState says how it ended
		close(s.done)
	}()
	t.Cleanup(s.end)
	s.address = s.line()
	return s
}

// line is the next line that the process prints.
func (s *server) line() string {
	s.t.Helper()
	select {
	case line := <-s.said:
		return line
	case <-s.done:
		s.t.Fatalf("%s has ended (%s):\n%s", s.name, s.cmd.ProcessState, s.log)
	case <-time.After(patience):
		s.t.Fatalf("%s says nothing for %s:\n%s", s.name, patience, s.log)
	}
	return ""
}

// end has the process drain, which must succeed, unless it was killed.
func (s *server) end() {
	_ = s.orders.Close() // it may have ended
	select {
	case <-s.done:
	case <-time.After(patience):
		s.t.Errorf("%s does not end for %s", s.name, patience)
		_ = s.cmd.Process.Kill() // the same
		<-s.done
	}
	if status := s.cmd.ProcessState; !status.Success() && !killed(status) {
		s.t.Errorf("%s ended with %s", s.name, status)
	}
	if s.t.Failed() {
		s.t.Logf("%s has logged:\n%s", s.name, s.log)
	}
}

// kill kills the process with SIGKILL.
func (s *server) kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.done
}

// stop stops the process with SIGSTOP for a time. It may wake up to find its lease lost.
func (s *server) stop(lasts time.Duration) {
	_ = s.cmd.Process.Signal(syscall.SIGSTOP) // it may have ended
	time.Sleep(lasts)
	_ = s.cmd.Process.Signal(syscall.SIGCONT) // the same
}

// wasKilled waits until the process has killed itself.
func (s *server) wasKilled() {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(patience):
		s.t.Fatalf("%s has not come by its step for %s", s.name, patience)
	}
	if !killed(s.cmd.ProcessState) {
		s.t.Fatalf("%s ended with %s, not by SIGKILL", s.name, s.cmd.ProcessState)
	}
}

// alive says whether the process is not known to have ended.
func (s *server) alive() bool {
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

func killed(status *os.ProcessState) bool {
	w, ok := status.Sys().(syscall.WaitStatus)
	return ok && w.Signaled() && w.Signal() == syscall.SIGKILL
}

// lines is what a process writes. It is written by one goroutine, and may be read by others.
type lines struct {
	each func(line string) // nil: it is kept

	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	for l.each != nil {
		line, rest, whole := strings.Cut(l.text.String(), "\n")
		if !whole {
			break
		}
		l.each(line)
		l.text.Reset()
		l.text.WriteString(rest)
	}
	return len(p), nil
}

// String is the end of what was kept.
func (l *lines) String() string {
	const most = 4000
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.text.String()
	return text[max(len(text)-most, 0):]
}
