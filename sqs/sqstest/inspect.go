package sqstest

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// QueueState is what a queue holds at one instant.
type QueueState struct {
	Visible, InFlight, Delayed int // messages
	// Polls is how many long polls wait; those whose client went away count
	// until their time is over.
	Polls int
	// Messages are all of them, in the order in which they were first sent to
	// any queue. It is a copy.
	Messages []MessageState
}

// Depth is the number of messages in the queue, whatever their state.
func (q QueueState) Depth() int { return q.Visible + q.InFlight + q.Delayed }

// MessageState is a stored message.
type MessageState struct {
	ID, Body, Group, DeduplicationID string
	// State is "visible", "in flight" or "delayed".
	State string
	// Receives counts receives in all queues since it was sent.
	Receives int
	// Sent is the SentTimestamp. Due is when it becomes visible; zero if it is.
	Sent, Due time.Time
}

var stateNames = [...]string{visible: "visible", delayed: "delayed", inFlight: "in flight"}

// Counts is the state of the named queue without its Messages; the zero
// QueueState if there is none. It is cheap whatever the queue holds.
func (s *Server) Counts(name string) QueueState {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[name]
	if q == nil {
		return QueueState{}
	}
	return q.counts(s.clock.Now())
}

// counts is the state at the present, without messages. The lock is held.
func (q *queue) counts(now time.Time) QueueState {
	q.advance(now)
	return QueueState{Visible: q.held[visible], InFlight: q.held[inFlight], Delayed: q.held[delayed], Polls: q.polls}
}

// Queue is the state of the named queue with its messages; the zero QueueState
// if there is none. It copies the queue while the server waits: to poll a big
// one take Counts.
func (s *Server) Queue(name string) QueueState {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[name]
	if q == nil {
		return QueueState{}
	}
	state := q.counts(s.clock.Now())
	state.Messages = make([]MessageState, 0, len(q.retained.items))
	stored := slices.SortedFunc(slices.Values(q.retained.items), bySerial)
	for _, m := range stored {
		shown := MessageState{
			ID: m.id, Body: m.content.body, Group: m.content.group, DeduplicationID: m.content.dedup,
			State: stateNames[m.state], Receives: m.receives, Sent: m.sent,
		}
		if m.state != visible {
			shown.Due = m.due
		}
		state.Messages = append(state.Messages, shown)
	}
	return state
}

// bySerial orders messages as they were first sent.
func bySerial(a, b *message) int { return cmp.Compare(a.serial, b.serial) }

// FairState is what fair queues are watched by (developer guide, "Amazon SQS fair
// queues"): the metrics of that name in CloudWatch, exact.
type FairState struct {
	// Noisy are the groups (MessageGroupId) that are noisy neighbors, sorted; their
	// number is ApproximateNumberOfNoisyGroups.
	Noisy []string
	// The messages that are not of noisy groups:
	// ApproximateNumberOfMessagesVisibleInQuietGroups, ...NotVisibleInQuietGroups
	// and ...DelayedInQuietGroups.
	VisibleInQuiet, NotVisibleInQuiet, DelayedInQuiet int
	// OldestInQuiet is ApproximateAgeOfOldestMessageInQuietGroups.
	OldestInQuiet time.Duration
}

// Fair is the state of the named standard queue as a fair queue; the zero
// FairState if there is none, or it is a FIFO queue. It looks at each message while
// the server waits.
func (s *Server) Fair(name string) FairState {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[name]
	if q == nil {
		return FairState{}
	}
	fair, ok := q.order.(*fairOrder)
	if !ok {
		return FairState{}
	}
	now := s.clock.Now()
	q.advance(now)
	state := FairState{Noisy: fair.noisyGroups()}
	var held [gone]int
	for _, m := range q.retained.items {
		if slices.Contains(state.Noisy, m.content.group) {
			continue
		}
		held[m.state]++
		state.OldestInQuiet = max(state.OldestInQuiet, now.Sub(m.sent))
	}
	state.VisibleInQuiet, state.NotVisibleInQuiet, state.DelayedInQuiet = held[visible], held[inFlight], held[delayed]
	return state
}

// Queues are the names of all queues, sorted.
func (s *Server) Queues() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.queues))
}

// Calls is how often an action was called, failed calls counted.
func (s *Server) Calls(action string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[action]
}

// ExpireVisibility ends the visibility timeout of every message that is in
// flight in the named queue, as if its time were over, and says how many. Their
// receipt handles are stale from then on.
func (s *Server) ExpireVisibility(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[name]
	if q == nil {
		return 0
	}
	q.advance(s.clock.Now())
	var expired []*message
	for _, m := range q.waiting.items {
		if m.state == inFlight {
			expired = append(expired, m)
		}
	}
	slices.SortFunc(expired, bySerial)
	for _, m := range expired {
		q.show(m)
	}
	q.wake()
	return len(expired)
}

// CreateQueue creates a queue, FIFO if its name ends with .fifo, and returns its
// URL. It is for set-up code: what is wrong (see the API reference, CreateQueue)
// is the error. A queue that exists with these attributes is left as it is.
func (s *Server) CreateQueue(name string, attributes map[string]string) (url string, err error) {
	attributes = maps.Clone(attributes)
	if isFIFO(name) {
		if attributes == nil {
			attributes = map[string]string{}
		}
		attributes["FifoQueue"] = "true"
	}
	if e := s.create(name, attributes, nil); e != nil {
		return "", e
	}
	return s.queueURL(name), nil
}
