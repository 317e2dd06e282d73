package services

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"
)

// Limits of what a server may take. They end a run that would hang; nothing is tuned with them.
const (
	startLimit = 2 * time.Minute  // from the start of a process to its first answer
	stopGrace  = 45 * time.Second // from a polite Stop to SIGKILL
	killGrace  = 5 * time.Second  // from Kill's own signal to SIGKILL
	fetchLimit = 10 * time.Minute // start of a shared server, its download included
)

// Server is one server process with a port and data of its own. Its methods may be called from any goroutine; they wait
// for each other.
type Server struct {
	addr       string
	command    command
	ready      func(context.Context) error
	stopSignal syscall.Signal // asks for a clean end
	killSignal syscall.Signal // ends it as a crash does
	folder     *folder

	mu     sync.Mutex
	proc   *process
	closed bool
}

// Addr is host:port. It stays the same over Stop, Kill and Start.
func (s *Server) Addr() string { return s.addr }

// Start starts the server on the port and data it had, and returns when it has answered a request. It does nothing when
// the server runs. Without a deadline in ctx it gives up after two minutes.
func (s *Server) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("services: %s is closed", s.command.name)
	}
	if s.proc != nil && s.proc.running() {
		return nil
	}
	proc, err := launch(s.command)
	if err != nil {
		return err
	}
	s.proc = proc
	if err := proc.await(ctx, s.ready); err != nil {
		return errors.Join(err, s.end(s.killSignal, killGrace))
	}
	return nil
}

// Stop ends the server as an operator would and waits for it. Clients are disconnected; what was acknowledged is kept
// (ElasticMQ keeps nothing: its queues live in memory). A stopped server is left alone.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end(s.stopSignal, stopGrace)
}

// Kill ends the server as a crash does: nothing is flushed, no client is told. PostgreSQL gets SIGQUIT (an "immediate
// shutdown": the next start recovers from the log), which also takes the children of its main process; the others get
// SIGKILL.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end(s.killSignal, killGrace)
}

// Close kills the server and removes its data. The second Close does nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return errors.Join(s.end(s.killSignal, killGrace), s.folder.remove())
}

// end is called with mu held.
func (s *Server) end(sig syscall.Signal, grace time.Duration) error {
	if s.proc == nil {
		return nil
	}
	proc := s.proc
	s.proc = nil
	return proc.end(sig, grace)
}
