package httpkey

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/ackledger/ackledger/idempotency"
)

// Problem is what is answered to a request that is not run, and has no answer stored (RFC 9457).
type Problem struct {
	Type   string `json:"type"` // Options.TypeBase and one of the names below
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// RetryAfter is in how long to ask again; zero: it would be in vain.
	RetryAfter time.Duration `json:"-"`
	Err        error         `json:"-"` // why; for logs
}

// The names of problems, which end their types.
const (
	KeyMissing  = "idempotency-key-missing" // 400
	KeyInvalid  = "idempotency-key-invalid" // 400
	KeyReused   = "idempotency-key-reused"  // 422: with another request
	InProgress  = "request-in-progress"     // 409
	NotReplayed = "answer-not-kept"         // 409: done, but its answer could not be kept
	BodyTooLong = "request-too-large"       // 413
	Failed      = "request-failed"          // 500: for good
	Unavailable = "idempotency-unavailable" // 503
	Unknown     = "request-outcome-unknown" // 500: ask again
)

// write answers with a problem.
func (p *Problem) write(w http.ResponseWriter) error {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.RetryAfter.Seconds()))))
	}
	w.WriteHeader(p.Status)
	return json.NewEncoder(w).Encode(p)
}

// problem is what an error of the runner means.
func (m *middleware) problem(err error) *Problem {
	inProgress, busy := errors.AsType[*idempotency.InProgressError](err)
	_, badKey := errors.AsType[*idempotency.KeyError](err)
	failed, is := errors.AsType[*idempotency.FailedError](err)
	p := &Problem{Err: err}
	name := Unavailable
	switch {
	case badKey:
		name, p.Status, p.Title, p.Detail = KeyInvalid, http.StatusBadRequest, "The idempotency key is not valid", err.Error()
	case errors.Is(err, idempotency.ErrMismatch):
		name, p.Status, p.Title = KeyReused, http.StatusUnprocessableEntity, "The idempotency key was used with another request"
	case busy:
		name, p.Status, p.Title = InProgress, http.StatusConflict, "The same request is in progress"
		p.RetryAfter = max(min(inProgress.Rest, m.opt.RetryAfter), time.Second)
	case errors.Is(err, idempotency.ErrWaited):
		name, p.Status, p.Title, p.RetryAfter = InProgress, http.StatusConflict, "The same request is in progress", m.opt.RetryAfter
	case is && failed.Text == errTorn.Error():
		name, p.Status, p.Title = NotReplayed, http.StatusConflict, "A part of the request's answer was sent, and its transaction has failed"
	case is:
		name, p.Status, p.Title, p.Detail = Failed, http.StatusInternalServerError, "The request has failed for good", m.opt.FailureText(failed)
	case errors.Is(err, idempotency.ErrUnknown):
		name, p.Status, p.Title, p.RetryAfter = Unknown, http.StatusInternalServerError, "Whether the request was done is not known", time.Second
	default:
		p.Status, p.Title, p.RetryAfter = http.StatusServiceUnavailable, "Requests with an idempotency key are not available", m.opt.RetryAfter
	}
	p.Type = m.opt.TypeBase + name
	return p
}
