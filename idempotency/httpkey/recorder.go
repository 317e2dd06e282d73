package httpkey

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger"
)

// recorder is what a handler answers. It keeps the answer until the handler has returned, so that no client sees what is not stored,
// unless the handler flushes, takes the connection over, or answers more than is kept: then it goes straight to the client, and what
// is stored is that there is no answer.
type recorder struct {
	w      http.ResponseWriter
	limit  int
	around http.Header // what stood in w before the handler: of whoever wraps the middleware

	mu     sync.Mutex
	header http.Header // the handler's, from around on
	status int         // 0: none yet
	head   http.Header // what the header was when the answer began, and is; nil: it has not begun
	body   bytes.Buffer
	lost   string // why the answer is not kept; empty: it is
	over   bool   // the handler has returned, or panicked
	blown  any    // what it panicked with
	closed bool   // nobody listens any more
}

// tooLarge is why most answers are not kept that are not.
const tooLarge = "it is larger than what is kept"

// takenOver is why an answer is not kept whose connection is the handler's.
const takenOver = "its connection was taken over"

// notText is why an answer is not kept that has a header which the ledger cannot hold.
const notText = "a header of it is not UTF-8"

func newRecorder(w http.ResponseWriter, limit int) *recorder {
	return &recorder{w: w, limit: limit, around: w.Header().Clone(), header: w.Header().Clone()}
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter. What informs (1xx) goes to the client at once, and is not kept. It panics on what is no
// status, as net/http does: later, nobody would know who wrote it.
func (r *recorder) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("httpkey: WriteHeader: must be 100 to 999, is %d", status))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed || r.status != 0:
	case status == http.StatusSwitchingProtocols: // what follows is the other protocol's
		r.status, r.head, r.lost = status, r.header.Clone(), takenOver
		become(r.w.Header(), r.head)
		r.w.WriteHeader(status)
	case status < 200:
		become(r.w.Header(), r.header)
		r.w.WriteHeader(status)
		become(r.w.Header(), r.around) // whoever answers in the end begins anew
	default:
		r.status, r.head = status, r.header.Clone()
	}
}

var errClosed = errors.New("httpkey: the request is over")

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return 0, errClosed
	case len(p) == 0:
		return 0, nil
	case r.status == http.StatusNoContent || r.status == http.StatusNotModified:
		return 0, http.ErrBodyNotAllowed
	}
	if r.lost == "" && r.body.Len()+len(p) > r.limit {
		if err := r.goLive(tooLarge); err != nil {
			return 0, err
		}
	}
	if r.lost != "" {
		return r.w.Write(p)
	}
	return r.body.Write(p)
}

// FlushError is what http.ResponseController asks for.
func (r *recorder) FlushError() error {
	r.WriteHeader(http.StatusOK)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errClosed
	}
	if err := r.goLive("it was sent piece by piece"); err != nil {
		return err
	}
	return http.NewResponseController(r.w).Flush()
}

// Flush implements http.Flusher.
func (r *recorder) Flush() { _ = r.FlushError() } // an error comes again with the next Write

// Hijack implements http.Hijacker.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, nil, errClosed
	}
	if r.status != 0 { // what was answered before goes first
		if err := r.goLive(takenOver); err != nil {
			return nil, nil, err
		}
	}
	conn, rw, err := http.NewResponseController(r.w).Hijack()
	if err == nil {
		r.lost = takenOver
	}
	return conn, rw, err
}

// Unwrap gives http.ResponseController what is left: deadlines.
func (r *recorder) Unwrap() http.ResponseWriter { return r.w }

// goLive sends what was kept, and keeps nothing any more. The recorder is locked.
func (r *recorder) goLive(why string) error {
	if r.lost != "" {
		return nil
	}
	r.lost = why
	return r.send()
}

// send sends the status, the headers and what was written so far. The recorder is locked.
func (r *recorder) send() error {
	h := r.w.Header()
	become(h, r.answer())
	for name := range r.declared() {
		delete(h, name)
	}
	r.w.WriteHeader(max(r.status, http.StatusOK))
	_, err := r.w.Write(r.body.Bytes())
	r.body = bytes.Buffer{}
	return err
}

// answer is the answer's header. What the handler sets once the answer has begun is none of it, as in net/http. The recorder is locked.
func (r *recorder) answer() http.Header {
	if r.head != nil {
		return r.head
	}
	return r.header
}

// sendTrailers hands on what is to follow the body. The recorder is locked.
func (r *recorder) sendTrailers() {
	declared := r.declared()
	for name, values := range r.header {
		if declared[name] || strings.HasPrefix(name, http.TrailerPrefix) {
			r.w.Header()[name] = values
		}
	}
}

// declared are the trailers that the handler has announced.
func (r *recorder) declared() map[string]bool {
	all := map[string]bool{}
	for _, names := range r.header["Trailer"] {
		for name := range strings.SplitSeq(names, ",") {
			all[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	return all
}

// become makes one header equal to another.
func become(h, other http.Header) {
	clear(h)
	maps.Copy(h, other)
}

// returned notes that the handler is over, and what it panicked with: nobody changes its header any more.
func (r *recorder) returned(panicked any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over, r.blown = true, panicked
}

// panicked is what the handler has panicked with.
func (r *recorder) panicked() any {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.blown
}

// answered says whether the handler has begun to answer.
func (r *recorder) answered() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status != 0 || r.lost != ""
}

// result is what is to be stored of what was answered so far.
func (r *recorder) result(keep []string) idempotency.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	res := idempotency.Result{Status: max(r.status, http.StatusOK), Instead: tooLarge}
	if r.lost != "" {
		res.Tombstone = r.lost
		return res
	}
	res.Body = bytes.Clone(r.body.Bytes())
	h := r.answer()
	res.MediaType = h.Get("Content-Type")
	if _, set := h["Content-Type"]; !set && len(res.Body) > 0 && (h.Get("Content-Encoding") == "" || r.isAround(h, "Content-Encoding")) {
		res.MediaType = http.DetectContentType(res.Body)
	}
	if !utf8.ValidString(res.MediaType) {
		return idempotency.Result{Status: res.Status, Tombstone: notText}
	}
	for _, name := range keep {
		if r.isAround(h, name) { // whoever wraps the middleware says it of a replay, or does not
			continue
		}
		for _, value := range h.Values(name) {
			if !utf8.ValidString(value) {
				return idempotency.Result{Status: res.Status, Tombstone: notText}
			}
			res.Headers = append(res.Headers, ledger.Header{Name: http.CanonicalHeaderKey(name), Value: []byte(value)})
		}
	}
	return res
}

// isAround says whether a header is as it was before the handler.
func (r *recorder) isAround(h http.Header, name string) bool {
	return slices.Equal(h.Values(name), r.around.Values(name))
}

// end closes the recorder; with send, its answer is sent first, unless it was already. seen: the client has something of it.
func (r *recorder) end(send bool) (seen bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if seen = send || r.lost != ""; !seen {
		return false, nil
	}
	if r.lost == "" {
		err = r.send()
	}
	if r.over {
		r.sendTrailers()
	}
	return true, err
}
