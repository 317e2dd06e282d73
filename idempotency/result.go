package idempotency

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/ackledger/ackledger/ledger"
)

// Result is what a request is answered with, first and again.
type Result struct {
	// Status is the caller's own: 0 to 999; an HTTP status in package httpkey.
	Status int
	// MediaType says what Body is, in UTF-8; it may be empty.
	MediaType string
	// Headers are given back as they are, names and values in UTF-8. Their types are not kept.
	Headers []ledger.Header
	// Body is the answer. Nil is empty.
	Body []byte
	// Tombstone says why there is no answer although the request was done: it could not be kept. Empty: there is one.
	Tombstone string
	// Instead is the Tombstone that is stored where the result is too large to be kept; one that cannot be sealed has a Tombstone, too.
	// Empty: both are refused, with a [*TooLargeError] or the cipher's. For answers that can be sent once without being kept.
	Instead string
}

// envelope is the first line of a stored result, in JSON. What follows is the body, or what stands for it.
type envelope struct {
	Version   int         `json:"v"`
	Status    int         `json:"status,omitempty"`
	MediaType string      `json:"type,omitempty"`
	Headers   [][2]string `json:"headers,omitempty"`
	Tombstone string      `json:"tombstone,omitempty"`
	Failed    string      `json:"failed,omitempty"`  // the error of a failure for good
	Sealed    bool        `json:"sealed,omitempty"`  // the rest is a whole stored result, sealed
	Spilled   int         `json:"spilled,omitempty"` // a whole stored result of so many bytes lies elsewhere; the rest is its name there
	Sum       string      `json:"sum,omitempty"`     // the SHA-256 of what is spilled, in hex
}

const version = 1

// encode is how a result is stored; failed is the error's text of a failure for good.
func encode(r *Result, failed string) ([]byte, error) {
	if r.Status < 0 || r.Status > 999 {
		return nil, fmt.Errorf("idempotency: Result.Status: must be 0 to 999, is %d", r.Status)
	}
	e := envelope{
		Version: version, Status: r.Status, MediaType: r.MediaType, Tombstone: r.Tombstone, Failed: strings.ToValidUTF8(failed, "\uFFFD"),
	}
	if !utf8.ValidString(r.MediaType + r.Tombstone) {
		return nil, fmt.Errorf("idempotency: Result.MediaType and Tombstone: must be UTF-8, are %q and %q", r.MediaType, r.Tombstone)
	}
	for _, h := range r.Headers {
		if !utf8.ValidString(h.Name) || !utf8.Valid(h.Value) {
			return nil, fmt.Errorf("idempotency: Result.Headers: must be UTF-8, %q is not", h.Name)
		}
		e.Headers = append(e.Headers, [2]string{h.Name, string(h.Value)})
	}
	return e.with(r.Body)
}

// with is the envelope with what follows it.
func (e *envelope) with(rest []byte) ([]byte, error) {
	head, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("idempotency: encoding a result: %w", err)
	}
	return append(append(head, '\n'), rest...), nil
}

// open splits a stored result.
func open(stored []byte) (e envelope, rest []byte, err error) {
	head, rest, found := bytes.Cut(stored, []byte{'\n'})
	if !found || json.Unmarshal(head, &e) != nil || e.Version != version {
		return envelope{}, nil, errForeign
	}
	return e, rest, nil
}

// errForeign is of a result that something else has stored: a worker's SetResult, or a later version.
var errForeign = errors.New("idempotency: the stored result is not one of a runner's")

// result is what was encoded, of an envelope that is neither sealed nor spilled.
func (e *envelope) result(rest []byte) Result {
	r := Result{Status: e.Status, MediaType: e.MediaType, Tombstone: e.Tombstone, Body: rest}
	for _, h := range e.Headers {
		r.Headers = append(r.Headers, ledger.Header{Name: h[0], Value: []byte(h[1])})
	}
	return r
}
