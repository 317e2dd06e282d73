package sqstest

import (
	"net/http"
	"slices"
	"time"
)

// Fault is something that goes wrong with a call. The zero value of a field
// leaves that side of the call as it is; several may be set.
type Fault struct {
	// Action and Queue choose the calls: an action such as
	// "DeleteMessageBatch", a queue's name. Empty means every one.
	Action, Queue string
	// Skip lets this many matching calls pass first.
	Skip int
	// Times is how many calls are hit after that; zero is one, below zero is
	// all until the fault is removed.
	Times int

	// Delay holds the call back, by the server's clock, before it is performed,
	// which happens even if its client has gone meanwhile.
	Delay time.Duration
	// Code answers with this error instead of performing the call: one of the
	// Code constants or any other code of the service. Message is its text.
	Code, Message string
	// Status is the HTTP status of that error; zero is the code's usual one.
	// Alone (500, 503) it stands for InternalError and ServiceUnavailable.
	Status int
	// Entries, if not nil, makes Code hit single entries of a batch: those for
	// which it returns true fail, the others are performed. A call that is not
	// a batch passes.
	Entries func(index int, id string) bool
	// Drop performs the call and then cuts the connection without an answer.
	Drop bool
	// Duplicate makes a receive hand every message out twice in one answer,
	// under two receipt handles, as a standard queue may.
	Duplicate bool
}

// fault is an injected Fault with what is left of it.
type fault struct {
	Fault
	skip, left int
}

// Inject adds a fault. Of several that match, the one injected first is used.
// remove takes it back; it may be called again, and from any goroutine.
func (s *Server) Inject(f Fault) (remove func()) {
	added := &fault{Fault: f, skip: f.Skip, left: f.Times}
	if f.Times == 0 {
		added.left = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, added)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.faults = slices.DeleteFunc(s.faults, func(x *fault) bool { return x == added })
	}
}

// matching uses up the first fault that concerns the call.
func (s *Server) matching(c *call) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.faults {
		if f.Action != "" && f.Action != c.action || f.Queue != "" && f.Queue != c.queue {
			continue
		}
		if f.skip > 0 {
			f.skip--
			continue
		}
		if f.left--; f.left == 0 {
			s.faults = slices.Delete(s.faults, i, i+1)
		}
		return &f.Fault
	}
	return nil
}

// applyFault finds the call's fault and does what comes before the call itself.
func (s *Server) applyFault(c *call) *apiError {
	if c.fault = s.matching(c); c.fault == nil {
		return nil
	}
	if c.fault.Delay > 0 {
		over := make(chan struct{})
		stop := s.clock.AfterFunc(c.fault.Delay, func() { close(over) })
		defer stop()
		select {
		case <-over:
		case <-s.done:
			return fail(CodeUnavailable, "The server is closing.")
		}
	}
	if c.fault.Entries != nil {
		return nil
	}
	return c.fault.failure()
}

// failure is the error that the fault answers with; nil if it has none.
func (f *Fault) failure() *apiError {
	code := f.Code
	switch {
	case code != "":
	case f.Status == http.StatusServiceUnavailable:
		code = CodeUnavailable
	case f.Status != 0:
		code = CodeInternal
	default:
		return nil
	}
	message := f.Message
	if message == "" {
		message = "Injected by the test."
	}
	e := fail(code, "%s", message)
	if f.Status != 0 {
		e.status = f.Status
	}
	return e
}

// entryFailure is the error of one entry of a batch; nil: it is performed.
func (c *call) entryFailure(index int, id string) *apiError {
	if c.fault == nil || c.fault.Entries == nil || !c.fault.Entries(index, id) {
		return nil
	}
	if e := c.fault.failure(); e != nil {
		return e
	}
	return fail(CodeInternal, "Injected by the test.")
}
