package services

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// command says how one server process is run.
type command struct {
	name string // for errors: "PostgreSQL 18.6.0"
	path string
	args []string
	dir  string
	log  string              // file that gets the output, appended
	cred *syscall.Credential // nil: this process's user
	env  []string            // added to this process's
}

// process is a running (or ended) child.
type process struct {
	command
	cmd     *exec.Cmd
	done    chan struct{} // closed when it has ended
	err     error         // how it ended; read after done
	release func() error  // ends the guard
}

// forks is served by one goroutine that keeps its OS thread for as long as this process lives: the kernel kills a child
// with PR_SET_PDEATHSIG when the THREAD that forked it ends (prctl(2)).
var forks = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go forkOnOneThread(work)
	return work
})

func forkOnOneThread(work <-chan func()) {
	runtime.LockOSThread() // never unlocked
	for f := range work {
		f()
	}
}

// StartChild starts a command that ends with this process, also when that is killed; where the system cannot do so it goes on. For the
// workers that tests kill. It may be called concurrently.
func StartChild(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	endWithParent(cmd.SysProcAttr)
	started := make(chan error, 1)
	forks() <- func() { started <- cmd.Start() }
	return <-started
}

// launch starts c in a process group of its own, so that a Ctrl-C meant for the tests does not reach the server first.
func launch(c command) (*process, error) {
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(c.path, c.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, log, log
	cmd.Env = append(os.Environ(), c.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.cred}
	if err := StartChild(cmd); err != nil {
		return nil, fmt.Errorf("services: start %s: %w", c.name, err)
	}
	p := &process{command: c, cmd: cmd, done: make(chan struct{}), release: func() error { return nil }}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	if needsGuard {
		if p.release, err = guard(cmd.Process.Pid); err != nil {
			return nil, errors.Join(err, p.end(syscall.SIGKILL, 0))
		}
	}
	return p, nil
}

// await asks until ready answers nil: one real request to the server. It fails at once when the process ends.
func (p *process) await(ctx context.Context, ready func(context.Context) error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ask, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := ready(ask)
		cancel()
		select {
		case <-p.done:
			return fmt.Errorf("services: %s ended while it started: %w; the end of its log:\n%s", p.name, p.exit(), p.tail())
		default:
		}
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
		case <-ctx.Done():
			return fmt.Errorf("services: %s did not answer: %w (last: %w); the end of its log:\n%s",
				p.name, context.Cause(ctx), err, p.tail())
		case <-tick.C:
		}
	}
}

// end sends sig, and SIGKILL when the process is still there after the grace.
func (p *process) end(sig syscall.Signal, grace time.Duration) error {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	err := p.signal(sig)
	select {
	case <-p.done:
	case <-timer.C:
		err = errors.Join(err, p.signal(syscall.SIGKILL))
		<-p.done
	}
	return errors.Join(err, p.release())
}

func (p *process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("services: send %v to %s: %w", sig, p.name, err)
	}
	return nil
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *process) exit() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

func (p *process) tail() string {
	out, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return lastLines(out)
}

// runOnce runs a command that ends by itself.
func runOnce(ctx context.Context, c command) error {
	p, err := launch(c)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("services: %s: %w", c.name, context.Cause(ctx)), p.end(syscall.SIGKILL, 0))
	}
	if err := p.release(); err != nil {
		return err
	}
	if p.err != nil {
		return fmt.Errorf("services: %s: %w; the end of its log:\n%s", c.name, p.err, p.tail())
	}
	return nil
}
