package sqstest

import (
	"slices"
	"time"
)

// moveTask is a message move task. The lock guards it.
type moveTask struct {
	handle      string
	source      *queue
	destination string // ARN; empty: where each message came from
	rate        int    // messages a second; 0: all at once
	started     time.Time
	status      string
	moved       int
	toMove      int
	reason      string
}

type startMoveInput struct {
	SourceArn                    string
	DestinationArn               string
	MaxNumberOfMessagesPerSecond *int
}

func (in startMoveInput) target() string { return in.SourceArn }

type startMoveOutput struct{ TaskHandle string }

const maxMoveRate = 500

// source is the queue of a move task's SourceArn. The lock is held.
func (s *Server) source(arn string, now time.Time) (*queue, *apiError) {
	if arn == "" {
		return nil, errMissing("SourceArn")
	}
	q, err := s.find(arn, now)
	if err != nil || arn != q.arn() {
		return nil, fail("ResourceNotFoundException", "The resource that you specified for the SourceArn parameter doesn't exist: %s.", arn)
	}
	return q, nil
}

func (s *Server) startMoveTask(_ *call, in *startMoveInput) (*startMoveOutput, *apiError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	q, err := s.source(in.SourceArn, now)
	if err != nil {
		return nil, err
	}
	if len(s.sourcesOf(q)) == 0 {
		return nil, errValue("SourceArn", in.SourceArn, "Source queue must be configured as a Dead Letter Queue.")
	}
	if in.DestinationArn != "" {
		target := s.queues[nameOf(in.DestinationArn)]
		if target == nil || target.arn() != in.DestinationArn {
			return nil, fail("ResourceNotFoundException", "The resource that you specified for the DestinationArn parameter doesn't exist: %s.", in.DestinationArn)
		}
		if target == q || target.fifo != q.fifo {
			return nil, errValue("DestinationArn", in.DestinationArn, "It must be another queue of the source's type.")
		}
	}
	if len(q.tasks) > 0 && q.tasks[0].status == "RUNNING" {
		return nil, fail("InvalidParameterValue", "There is already a task running. Only one active task is allowed for a source queue arn at a given time.")
	}
	t := &moveTask{
		handle: newID(), source: q, destination: in.DestinationArn, started: now, status: "RUNNING", toMove: q.held[visible],
	}
	if in.MaxNumberOfMessagesPerSecond != nil {
		if t.rate = *in.MaxNumberOfMessagesPerSecond; t.rate < 1 || t.rate > maxMoveRate {
			return nil, errValue("MaxNumberOfMessagesPerSecond", t.rate, "Must be between 1 and 500.")
		}
	}
	q.tasks = append([]*moveTask{t}, q.tasks[:min(len(q.tasks), maxMoveTasksKept-1)]...)
	t.run(now)
	return &startMoveOutput{t.handle}, nil
}

// run moves what one second allows, and comes back for the rest. The lock is held.
func (t *moveTask) run(now time.Time) {
	q := t.source
	for n := 0; t.moved < t.toMove && !q.deleted; n++ {
		if t.rate > 0 && n == t.rate {
			q.server.clock.AfterFunc(time.Second, t.resume)
			return
		}
		next := q.order.pick(1)
		if len(next) == 0 {
			break
		}
		if t.reason = t.move(next[0], now); t.reason != "" {
			t.status = "FAILED"
			q.wake()
			return
		}
		t.moved++
	}
	t.status = "COMPLETED"
	q.wake()
}

func (t *moveTask) resume() {
	s := t.source.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.status != "RUNNING" {
		return
	}
	now := s.clock.Now()
	t.source.advance(now)
	t.run(now)
}

// move sends one message on as a new one (developer guide, "dead-letter queue
// redrive": redriven messages get a new messageID and enqueueTime). It returns
// why it could not.
func (t *moveTask) move(m *message, now time.Time) (reason string) {
	s := t.source.server
	destination := t.destination
	if destination == "" {
		destination = m.source
	}
	if destination == "" {
		return "CouldNotDetermineMessageSource"
	}
	target := s.queues[nameOf(destination)]
	if target == nil {
		return legacy + "NonExistentQueue"
	}
	t.source.drop(m)
	renewed := &message{serial: s.next(), id: newID(), content: m.content, sent: now}
	if err := s.reserve(renewed); err != nil { // cannot be: the same bytes were just released
		return err.code
	}
	target.advance(now)
	target.insert(renewed, now, now)
	target.wake()
	return ""
}

type listMovesInput struct {
	SourceArn  string
	MaxResults *int
}

func (in listMovesInput) target() string { return in.SourceArn }

type listMovesOutput struct{ Results []moveResult }

type moveResult struct {
	TaskHandle                        string `json:",omitempty"` // of a running task only
	Status                            string
	SourceArn                         string
	DestinationArn                    string `json:",omitempty"`
	MaxNumberOfMessagesPerSecond      int    `json:",omitempty"`
	ApproximateNumberOfMessagesMoved  int
	ApproximateNumberOfMessagesToMove int
	FailureReason                     string `json:",omitempty"`
	StartedTimestamp                  int64
}

func (s *Server) listMoveTasks(_ *call, in *listMovesInput) (*listMovesOutput, *apiError) {
	limit := 1
	if in.MaxResults != nil {
		if limit = *in.MaxResults; limit < 1 || limit > maxMoveTasksKept {
			return nil, errValue("MaxResults", limit, "Must be between 1 and 10.")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.source(in.SourceArn, s.clock.Now())
	if err != nil {
		return nil, err
	}
	out := &listMovesOutput{Results: []moveResult{}}
	for _, t := range q.tasks[:min(limit, len(q.tasks))] {
		r := moveResult{
			Status: t.status, SourceArn: q.arn(), DestinationArn: t.destination, MaxNumberOfMessagesPerSecond: t.rate,
			ApproximateNumberOfMessagesMoved: t.moved, ApproximateNumberOfMessagesToMove: t.toMove,
			FailureReason: t.reason, StartedTimestamp: t.started.UnixMilli(),
		}
		if t.status == "RUNNING" {
			r.TaskHandle = t.handle
		}
		out.Results = append(out.Results, r)
	}
	return out, nil
}

type cancelMoveInput struct{ TaskHandle string }

func (cancelMoveInput) target() string { return "" }

type cancelMoveOutput struct{ ApproximateNumberOfMessagesMoved int }

func (s *Server) cancelMoveTask(_ *call, in *cancelMoveInput) (*cancelMoveOutput, *apiError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.queues {
		i := slices.IndexFunc(q.tasks, func(t *moveTask) bool { return t.handle == in.TaskHandle && t.status == "RUNNING" })
		if i >= 0 {
			q.tasks[i].status = "CANCELLED"
			return &cancelMoveOutput{q.tasks[i].moved}, nil
		}
	}
	return nil, fail("ResourceNotFoundException", "No running task has this handle.")
}
