package sqstest

import "time"

type receiveInput struct {
	queueRef
	AttributeNames              []string
	MessageSystemAttributeNames []string
	MessageAttributeNames       []string
	MaxNumberOfMessages         *int
	VisibilityTimeout           *int
	WaitTimeSeconds             *int
}

type receiveOutput struct {
	Messages []receivedMessage `json:",omitempty"`
}

type receivedMessage struct {
	MessageId              string
	ReceiptHandle          string
	Body                   string
	MD5OfBody              string
	Attributes             map[string]string    `json:",omitempty"`
	MessageAttributes      map[string]attribute `json:",omitempty"`
	MD5OfMessageAttributes string               `json:",omitempty"`
}

func (in *receiveInput) check() *apiError {
	bounded := func(name string, value *int, low, high int) *apiError {
		if value == nil || *value >= low && *value <= high {
			return nil
		}
		if low == 1 {
			return errValue(name, *value, "Must be between 1 and 10, if provided.")
		}
		return errValue(name, *value, "Must be >= 0 and within the service's limit, if provided.")
	}
	for _, err := range []*apiError{
		bounded("MaxNumberOfMessages", in.MaxNumberOfMessages, 1, maxBatchEntries),
		bounded("VisibilityTimeout", in.VisibilityTimeout, 0, int(maxVisibility/time.Second)),
		bounded("WaitTimeSeconds", in.WaitTimeSeconds, 0, maxWaitSeconds),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// poll is one ReceiveMessage while it waits.
type poll struct {
	call    *call
	in      *receiveInput
	on      *queue    // set, as the rest, by the first look
	end     time.Time // of the wait
	long    bool
	waiting bool // counted in the queue's polls
}

// receiveMessage looks, and for a long poll looks again whenever the queue
// changes or one of its messages is due, until there is something or its time is
// over. It does not end when its client goes away: see the package comment.
func (s *Server) receiveMessage(c *call, in *receiveInput) (*receiveOutput, *apiError) {
	if err := in.check(); err != nil {
		return nil, err
	}
	p := &poll{call: c, in: in}
	defer s.leave(p)
	for {
		out, again, changed, err := s.look(p)
		if err != nil || again.IsZero() {
			return out, err
		}
		due := make(chan struct{})
		stop := s.callAt(again, func() { close(due) })
		select {
		case <-changed:
		case <-due:
		case <-s.done:
			err = fail(CodeUnavailable, "The server is closing.")
		}
		stop()
		if err != nil {
			return nil, err
		}
	}
}

// callAt calls f once the clock shows at. A clock that was moved between the
// reading of it and the setting of the alarm would call too late: then the alarm
// is set again.
func (s *Server) callAt(at time.Time, f func()) (stop func() bool) {
	for {
		now := s.clock.Now()
		stop = s.clock.AfterFunc(at.Sub(now), f)
		if s.clock.Now().Sub(now) < time.Millisecond || !stop() {
			return stop
		}
	}
}

// look receives what there is. again, unless zero, is when to look next at the
// latest, and changed closes when that should be earlier.
func (s *Server) look(p *poll) (out *receiveOutput, again time.Time, changed <-chan struct{}, err *apiError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	q := p.on
	if q == nil {
		if q, err = s.find(p.in.QueueUrl, now); err != nil {
			return nil, time.Time{}, nil, err
		}
		wait := orDefault(p.in.WaitTimeSeconds, q.config.wait)
		p.on, p.long, p.end = q, wait > 0, now.Add(wait)
	}
	if q.deleted {
		return nil, time.Time{}, nil, errNoQueue(q.name)
	}
	q.advance(now)
	if !p.long && !q.fifo && q.held[inFlight] >= s.options.MaxInFlight {
		return nil, time.Time{}, nil, fail(CodeOverLimit, "%d messages are in flight, the limit is %d.", q.held[inFlight], s.options.MaxInFlight)
	}
	limit := 1
	if p.in.MaxNumberOfMessages != nil {
		limit = *p.in.MaxNumberOfMessages
	}
	got := q.receive(limit, orDefault(p.in.VisibilityTimeout, q.config.visibility), now)
	if len(got) > 0 {
		return p.answer(got, now), time.Time{}, nil, nil
	}
	left := p.end.Sub(now)
	if left <= 0 {
		return &receiveOutput{}, time.Time{}, nil, nil
	}
	if at, ok := q.nextEvent(); ok {
		left = min(left, at.Sub(now))
	}
	if !p.waiting {
		p.waiting = true
		q.polls++
	}
	return nil, now.Add(max(left, 1)), q.changed, nil
}

// orDefault is a request's seconds, or the queue's own setting.
func orDefault(given *int, otherwise time.Duration) time.Duration {
	if given == nil {
		return otherwise
	}
	return time.Duration(*given) * time.Second
}

// leave ends a poll.
func (s *Server) leave(p *poll) {
	if !p.waiting {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.on.polls--
}

func (p *poll) answer(got []*message, now time.Time) *receiveOutput {
	copies := 1
	if p.call.fault != nil && p.call.fault.Duplicate {
		copies = 2
	}
	system := append(p.in.AttributeNames, p.in.MessageSystemAttributeNames...)
	out := &receiveOutput{Messages: make([]receivedMessage, 0, copies*len(got))}
	for _, m := range got {
		for i := range copies {
			if i > 0 {
				m.deliver(now)
			}
			attributes := chosen(m.content.attributes, p.in.MessageAttributeNames)
			shown := receivedMessage{
				MessageId: m.id, ReceiptHandle: m.handle(), Body: m.content.body, MD5OfBody: m.content.bodyMD5,
				Attributes: m.systemAttributes(system), MessageAttributes: attributes, MD5OfMessageAttributes: digest(attributes),
			}
			out.Messages = append(out.Messages, shown)
			p.call.saw(CallEntry{MessageID: m.id, ReceiptHandle: shown.ReceiptHandle}, nil)
		}
	}
	return out
}
