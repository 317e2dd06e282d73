package sqstest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"
)

// call is one request on its way through the server.
type call struct {
	action  string
	queue   string // name; empty if the action has none
	entries []CallEntry
	fault   *Fault // what to do to this call; nil: nothing
}

// Call is a request as [Options.Observe] sees it.
type Call struct {
	Action  string // such as "ReceiveMessage"
	Queue   string // the queue's name; empty if the action concerns none
	Code    string // error code of the whole call; empty if it succeeded
	Entries []CallEntry
}

// CallEntry is one message of a send, receive, delete or visibility change,
// whether it came alone or in a batch.
type CallEntry struct {
	ID                string // of the batch entry; empty for a single call
	MessageID         string // empty if it is not known (any more)
	ReceiptHandle     string
	VisibilityTimeout int    // seconds; of visibility changes
	Code              string // error code of this entry; empty if it succeeded
}

// action performs one decoded request.
type action func(s *Server, c *call, body []byte) (any, *apiError)

// targeted is a request that names a queue, by URL, ARN or name.
type targeted interface{ target() string }

// on makes an action of a function: decode, apply the fault, run.
func on[In targeted, Out any](run func(*Server, *call, *In) (*Out, *apiError)) action {
	return func(s *Server, c *call, body []byte) (any, *apiError) {
		var in In
		if !utf8.Valid(body) {
			return nil, fail("SerializationException", "The request body is not UTF-8.")
		}
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, fail("SerializationException", "The request body does not fit %s: %v.", c.action, err)
		}
		c.queue = nameOf(in.target())
		if err := s.applyFault(c); err != nil {
			return nil, err
		}
		out, err := run(s, c, &in)
		if err != nil {
			return nil, err
		}
		return out, nil
	}
}

// ServeHTTP answers one request of the AWS JSON 1.0 protocol.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{}
	out, err := s.perform(w, r, c)
	if s.options.Observe != nil {
		seen := Call{Action: c.action, Queue: c.queue, Entries: c.entries}
		if err != nil {
			seen.Code = err.code
		}
		s.options.Observe(seen)
	}
	if c.fault != nil && c.fault.Drop {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			conn.Close() // the connection ends without a word
			return
		}
	}
	answer(w, out, err)
}

func (s *Server) perform(w http.ResponseWriter, r *http.Request, c *call) (any, *apiError) {
	target := r.Header.Get("X-Amz-Target")
	name, ok := strings.CutPrefix(target, "AmazonSQS.")
	act, found := actions[name]
	if r.Method != http.MethodPost || !ok || !found {
		return nil, fail("InvalidAction", "%s with X-Amz-Target %.80q is not an action of this server.", r.Method, target)
	}
	c.action = name
	s.mu.Lock()
	s.calls[name]++
	s.mu.Unlock()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return nil, fail(legacy+"BatchRequestTooLong", "The request is longer than %d bytes.", tooLarge.Limit)
	}
	if err != nil {
		return nil, fail("SerializationException", "The request body could not be read: %v.", err)
	}
	return act(s, c, body)
}

func answer(w http.ResponseWriter, out any, failure *apiError) {
	status := http.StatusOK
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("x-amzn-RequestId", newID())
	if failure != nil {
		status = failure.status
		w.Header().Set("x-amzn-query-error", failure.code+";"+failure.fault())
		out = map[string]string{"__type": failure.shape, "message": failure.message}
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(out); err != nil { // every answer is a plain struct
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // a client that went away is not the server's concern
}
