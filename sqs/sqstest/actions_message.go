package sqstest

import (
	"regexp"
	"time"
)

// sendEntry is a message to send, alone or in a batch.
type sendEntry struct {
	ID                      string `json:"Id"`
	MessageBody             string
	DelaySeconds            *int
	MessageAttributes       map[string]attribute
	MessageSystemAttributes map[string]attribute
	MessageGroupId          string
	MessageDeduplicationId  string
}

func (e sendEntry) entryID() string { return e.ID }

type sendInput struct {
	queueRef
	sendEntry
}

type sendOutput struct {
	ID                           string `json:"Id,omitempty"`
	MessageId                    string
	MD5OfMessageBody             string
	MD5OfMessageAttributes       string `json:",omitempty"`
	MD5OfMessageSystemAttributes string `json:",omitempty"`
	SequenceNumber               string `json:",omitempty"`
}

func sent(q *queue, id string, c content, r receipt) sendOutput {
	out := sendOutput{
		ID: id, MessageId: r.id, MD5OfMessageBody: c.bodyMD5,
		MD5OfMessageAttributes: digest(c.attributes), MD5OfMessageSystemAttributes: digest(c.system),
	}
	if q.fifo {
		out.SequenceNumber = sequenceNumber(r.sequence)
	}
	return out
}

func (s *Server) sendMessage(c *call, in *sendInput) (*sendOutput, *apiError) {
	prepared, err := prepare(&in.sendEntry)
	if err != nil {
		return nil, err
	}
	var out sendOutput
	err = s.inQueue(in.QueueUrl, func(q *queue, now time.Time) *apiError {
		r, err := q.send(prepared, in.DelaySeconds, now)
		if err == nil {
			out = sent(q, "", prepared, r)
		}
		return err
	})
	c.saw(CallEntry{MessageID: out.MessageId}, err)
	return &out, err
}

// saw notes an entry for Observe.
func (c *call) saw(e CallEntry, err *apiError) {
	if err != nil {
		e.Code = err.code
	}
	c.entries = append(c.entries, e)
}

// batch is a request for several messages of one queue.
type batch[E interface{ entryID() string }] struct {
	queueRef
	Entries []E
}

// batchOutput answers each entry in one of its two lists.
type batchOutput[R any] struct {
	Successful []R           `json:",omitempty"`
	Failed     []failedEntry `json:",omitempty"`
}

type failedEntry struct {
	ID          string `json:"Id"`
	SenderFault bool
	Code        string
	Message     string
}

func (o *batchOutput[R]) settle(id string, done R, err *apiError) {
	if err == nil {
		o.Successful = append(o.Successful, done)
		return
	}
	o.Failed = append(o.Failed, failedEntry{ID: id, SenderFault: err.fault() == "Sender", Code: err.code, Message: err.message})
}

var batchID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

// check holds a batch to the rules that concern it as a whole.
func (b *batch[E]) check() *apiError {
	switch n := len(b.Entries); {
	case n == 0:
		return fail(legacy+"EmptyBatchRequest", "There should be at least one entry in the request.")
	case n > maxBatchEntries:
		return fail(legacy+"TooManyEntriesInBatchRequest", "Maximum number of entries per request are 10. You have sent %d.", n)
	}
	seen := map[string]bool{}
	for _, e := range b.Entries {
		id := e.entryID()
		if !batchID.MatchString(id) {
			return fail(legacy+"InvalidBatchEntryId", "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long, got %.100q.", id)
		}
		if seen[id] {
			return fail(legacy+"BatchEntryIdsNotDistinct", "Id %s repeated.", id)
		}
		seen[id] = true
	}
	return nil
}

func (s *Server) sendMessageBatch(c *call, in *batch[sendEntry]) (*batchOutput[sendOutput], *apiError) {
	if err := in.check(); err != nil {
		return nil, err
	}
	contents := make([]content, len(in.Entries))
	failures := make([]*apiError, len(in.Entries))
	total := 0
	for i := range in.Entries {
		contents[i], failures[i] = prepare(&in.Entries[i])
		total += max(contents[i].size, len(in.Entries[i].MessageBody))
		if e := c.entryFailure(i, in.Entries[i].ID); e != nil {
			failures[i] = e
		}
	}
	if total > maxMessageBytes {
		return nil, fail(legacy+"BatchRequestTooLong", "Batch requests cannot be longer than %d bytes. You have sent %d bytes.", maxMessageBytes, total)
	}
	out := &batchOutput[sendOutput]{}
	return out, s.inQueue(in.QueueUrl, func(q *queue, now time.Time) *apiError {
		for i, e := range in.Entries {
			var done sendOutput
			err := failures[i]
			if err == nil {
				var r receipt
				if r, err = q.send(contents[i], e.DelaySeconds, now); err == nil {
					done = sent(q, e.ID, contents[i], r)
				}
			}
			out.settle(e.ID, done, err)
			c.saw(CallEntry{ID: e.ID, MessageID: done.MessageId}, err)
		}
		return nil
	})
}

type deleteEntry struct {
	ID            string `json:"Id"`
	ReceiptHandle string
}

func (e deleteEntry) entryID() string { return e.ID }

type deleteInput struct {
	queueRef
	deleteEntry
}

type entryDone struct {
	ID string `json:"Id"`
}

func (s *Server) deleteMessage(c *call, in *deleteInput) (*empty, *apiError) {
	return &empty{}, s.inQueue(in.QueueUrl, func(q *queue, _ time.Time) *apiError {
		id, err := s.deleteByHandle(q, in.ReceiptHandle)
		c.saw(CallEntry{MessageID: id, ReceiptHandle: in.ReceiptHandle}, err)
		return err
	})
}

func (s *Server) deleteMessageBatch(c *call, in *batch[deleteEntry]) (*batchOutput[entryDone], *apiError) {
	if err := in.check(); err != nil {
		return nil, err
	}
	out := &batchOutput[entryDone]{}
	return out, s.inQueue(in.QueueUrl, func(q *queue, _ time.Time) *apiError {
		for i, e := range in.Entries {
			id, err := "", c.entryFailure(i, e.ID)
			if err == nil {
				id, err = s.deleteByHandle(q, e.ReceiptHandle)
			}
			out.settle(e.ID, entryDone{e.ID}, err)
			c.saw(CallEntry{ID: e.ID, MessageID: id, ReceiptHandle: e.ReceiptHandle}, err)
		}
		return nil
	})
}

type visibilityEntry struct {
	ID                string `json:"Id"`
	ReceiptHandle     string
	VisibilityTimeout *int
}

func (e visibilityEntry) entryID() string { return e.ID }

type visibilityInput struct {
	queueRef
	visibilityEntry
}

// changeOne performs one visibility change and notes it.
func (s *Server) changeOne(c *call, q *queue, e visibilityEntry, now time.Time, injected *apiError) *apiError {
	if e.VisibilityTimeout == nil {
		return errMissing("VisibilityTimeout")
	}
	id, err := "", injected
	if err == nil {
		id, err = s.changeVisibility(q, e.ReceiptHandle, *e.VisibilityTimeout, now)
	}
	c.saw(CallEntry{ID: e.ID, MessageID: id, ReceiptHandle: e.ReceiptHandle, VisibilityTimeout: *e.VisibilityTimeout}, err)
	return err
}

func (s *Server) changeMessageVisibility(c *call, in *visibilityInput) (*empty, *apiError) {
	return &empty{}, s.inQueue(in.QueueUrl, func(q *queue, now time.Time) *apiError {
		return s.changeOne(c, q, in.visibilityEntry, now, nil)
	})
}

func (s *Server) changeMessageVisibilityBatch(c *call, in *batch[visibilityEntry]) (*batchOutput[entryDone], *apiError) {
	if err := in.check(); err != nil {
		return nil, err
	}
	out := &batchOutput[entryDone]{}
	return out, s.inQueue(in.QueueUrl, func(q *queue, now time.Time) *apiError {
		for i, e := range in.Entries {
			out.settle(e.ID, entryDone{e.ID}, s.changeOne(c, q, e, now, c.entryFailure(i, e.ID)))
		}
		return nil
	})
}
