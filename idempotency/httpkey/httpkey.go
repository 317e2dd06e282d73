package httpkey

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"runtime/debug"
	"strings"

	"go.uber.org/zap"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/ledger"
)

// middleware is one handler behind a runner.
type middleware struct {
	runner *idempotency.Runner
	opt    Options
	next   http.Handler
}

// New makes the middleware. It may wrap each handler of a mux, or a whole one: then no route's pattern is part of a request's identity, and a
// key that comes with another path is a mismatch. A route that is renamed, its wildcards' names included, makes other requests of those that
// clients repeat. The host is no part of it, unless it is in the pattern, or Options.Caller adds it: clients may repeat a request by another
// name of the server. What wraps the middleware must leave the body to it. Requests with GET, HEAD, OPTIONS and TRACE pass, and so do those
// without a key that need none.
func New(r *idempotency.Runner, o Options) (func(http.Handler) http.Handler, error) {
	if r == nil {
		return nil, errors.New("httpkey: New: the runner must not be nil")
	}
	opt, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return func(next http.Handler) http.Handler { return &middleware{runner: r, opt: opt, next: next} }, nil
}

// ServeHTTP implements http.Handler.
func (m *middleware) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		m.next.ServeHTTP(w, r)
		return
	}
	values := r.Header.Values(m.opt.Header)
	if len(values) == 0 {
		if m.opt.Required(r) {
			m.tell(w, r, &Problem{Type: m.opt.TypeBase + KeyMissing, Title: "The request needs the header " + m.opt.Header, Status: http.StatusBadRequest})
			return
		}
		m.next.ServeHTTP(w, r)
		return
	}
	key, err := parseKey(values, m.opt.Strict)
	if err != nil {
		m.tell(w, r, m.invalid(err))
		return
	}
	q, body, p := m.request(w, r, key)
	if p != nil {
		m.tell(w, r, p)
		return
	}
	m.do(w, r, q, body)
}

func (m *middleware) invalid(err error) *Problem {
	return &Problem{Type: m.opt.TypeBase + KeyInvalid, Title: "The idempotency key is not valid", Status: http.StatusBadRequest, Detail: err.Error(), Err: err}
}

// request is what the runner is asked, and the request's body.
func (m *middleware) request(w http.ResponseWriter, r *http.Request, key string) (q idempotency.Request, body []byte, p *Problem) {
	var err error
	if r.ContentLength > m.opt.MaxBody { // before a client that expects a 100 sends it
		err = &http.MaxBytesError{Limit: m.opt.MaxBody}
	} else {
		body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, m.opt.MaxBody))
	}
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return q, nil, &Problem{Type: m.opt.TypeBase + BodyTooLong, Title: "The request is too large", Status: http.StatusRequestEntityTooLarge,
			Detail: fmt.Sprintf("at most %d bytes", m.opt.MaxBody), Err: err}
	}
	if err != nil {
		return q, nil, &Problem{Type: "about:blank", Title: "The request's body cannot be read", Status: http.StatusBadRequest, Err: err}
	}
	if len(body) == 0 && r.ContentLength < 0 && len(r.PostForm) == 0 { // it may have been read before, which nothing tells
		return q, nil, &Problem{Type: "about:blank", Title: "A request without a body needs its Content-Length", Status: http.StatusLengthRequired}
	}
	content, err := read(r, body)
	if err != nil {
		return q, nil, &Problem{Type: "about:blank", Title: "The request's body was read before its key", Status: http.StatusInternalServerError, Err: err}
	}
	if m.opt.Body != nil {
		if content, err = m.opt.Body(r, body); err != nil {
			return q, nil, &Problem{Type: "about:blank", Title: "The request's body is not valid", Status: http.StatusBadRequest, Detail: err.Error(), Err: err}
		}
	}
	return idempotency.Request{Scope: route(r), Caller: bounded(m.opt.Caller(r)), Key: key, Body: m.identity(r, content)}, body, nil
}

// read is the content of a request whose body may have been read by an outer handler: as a form, or else not at all.
func read(r *http.Request, body []byte) ([]byte, error) {
	files := r.MultipartForm != nil && len(r.MultipartForm.File) > 0
	switch {
	case len(body) > 0 && int64(len(body)) >= r.ContentLength: // more, where an outer handler has decompressed it
		return body, nil
	case len(body) > 0, files, r.ContentLength > 0 && len(r.PostForm) == 0:
		return nil, errors.New("httpkey: the request's body was read before, so that what it asks for is not known: wrap outside of what reads it")
	}
	return []byte(r.PostForm.Encode()), nil
}

// maxPart is how long a scope or a caller may be.
const maxPart = 255

// shortened is how a part ends of which only the beginning and the hash are taken.
var shortened = regexp.MustCompile(`~[0-9a-f]{64}$`)

// bounded is a part of the identity: what is too long ends in its hash, and so does what would look like that.
func bounded(part string) string {
	if len(part) <= maxPart && !shortened.MatchString(part) {
		return part
	}
	sum := sha256.Sum256([]byte(part))
	return strings.ToValidUTF8(part[:min(len(part), maxPart-1-2*len(sum))], "") + "~" + hex.EncodeToString(sum[:])
}

// route is the request's method and its route's pattern: names of which there are few, whatever clients send, since the ledger keeps each
// scope that it has seen. What is no usual method is a star.
func route(r *http.Request) string {
	method := r.Method
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		method = "*"
	}
	_, pattern, found := strings.Cut(r.Pattern, " ")
	if !found {
		pattern = r.Pattern
	}
	return bounded(strings.ToValidUTF8(strings.TrimSpace(method+" "+strings.TrimSpace(pattern)), "?"))
}

// identity is what must be equal in a repetition. None of the parts before the content has a line break.
func (m *middleware) identity(r *http.Request, content []byte) []byte {
	kind := r.Header.Get("Content-Type")
	if media, params, err := mime.ParseMediaType(kind); err == nil {
		if m.opt.Body != nil && strings.HasPrefix(media, "multipart/") { // chosen anew with each encoding
			delete(params, "boundary")
		}
		kind = cmp.Or(mime.FormatMediaType(media, params), kind)
	}
	query := r.URL.RawQuery
	if all, err := url.ParseQuery(query); err == nil { // else parts of it would be left out
		query = all.Encode()
	}
	path := r.URL.EscapedPath()
	if whole, err := url.ParseRequestURI(r.RequestURI); err == nil { // behind http.StripPrefix the path is a part of it
		path = whole.EscapedPath()
	}
	head := r.Method + "\n" + path + "\n" + query + "\n" + kind + "\n"
	return append([]byte(head), content...)
}

// How runs end that have no answer which is kept.
var (
	errReleased = errors.New("httpkey: the answer is one to be asked for again")
	errPanicked = errors.New("httpkey: the handler panicked")
	errTorn     = errors.New("httpkey: the client has a part of an answer, and the transaction has failed")
)

// do runs the request, or answers as it was answered.
func (m *middleware) do(w http.ResponseWriter, r *http.Request, q idempotency.Request, body []byte) {
	rec := newRecorder(w, m.runner.MaxResult())
	defer func() { _, _ = rec.end(false) }() // where Do panics nothing is written afterwards either
	ran := false
	out, err := m.runner.Do(r.Context(), q, func(ctx context.Context) (idempotency.Result, error) {
		ran = true
		return m.run(ctx, rec, r, body)
	})
	// What ran and is Replayed has lost its lease, or the answer to its commit: what the ledger has is the answer, not what was written here.
	send := ran && !out.Replayed && (err == nil || errors.Is(err, errReleased))
	seen, failed := rec.end(send)
	if p := rec.panicked(); p != nil {
		panic(p)
	}
	switch {
	case send:
		m.sent(r, failed)
	case seen: // its client has a part of an answer that does not hold, and must not take it for whole
		panic(http.ErrAbortHandler)
	case errors.Is(err, idempotency.ErrUnavailable) && !errors.Is(err, idempotency.ErrNotRunning) && m.opt.WithoutLedger:
		m.unprotected(w, r, body)
	case err != nil:
		if r.Context().Err() != nil { // the client seems to be gone, and may still read: its next request is to have another connection
			w.Header().Set("Connection", "close")
		}
		m.tell(w, r, m.problem(err))
	default:
		m.replay(w, r, &out.Result)
	}
}

// run calls the handler.
func (m *middleware) run(ctx context.Context, rec *recorder, r *http.Request, body []byte) (idempotency.Result, error) {
	var committed idempotency.Result
	kept := func() (idempotency.Result, error) {
		if committed = rec.result(m.opt.KeepHeaders); !rec.answered() {
			committed.Tombstone = "it was not written before its transaction ended"
		}
		return committed, nil
	}
	if err := idempotency.SetResultFrom(ctx, kept); err != nil {
		return idempotency.Result{}, err
	}
	if m.opt.EndWithClient {
		ended, end := context.WithCancelCause(ctx)
		defer end(nil)
		defer context.AfterFunc(r.Context(), func() { end(context.Cause(r.Context())) })()
		ctx = ended
	}
	panicked := m.handle(rec, again(r.WithContext(ctx), body))
	res := rec.result(m.opt.KeepHeaders)
	a, _ := ledger.AttemptFrom(ctx)
	switch {
	case panicked && res.Tombstone == "":
		return res, idempotency.Release(errPanicked)
	case rolledBack(a) && res.Status >= 400 && !panicked: // nothing is done, and the handler says so
		return res, idempotency.Release(errReleased)
	case rolledBack(a) && res.Tombstone != "": // what the client has may say that it was done
		return res, consumer.Terminal(errTorn)
	}
	if late(a, &committed, &res) {
		m.opt.Logger.Error("a handler has answered after its transaction's end: a repetition does not get that", zap.String("source", route(r)))
	}
	if !m.opt.Store(res.Status) && res.Tombstone == "" {
		return res, idempotency.Release(errReleased)
	}
	return res, nil
}

// handle has the handler answer. Its panic is kept, for the goroutine that serves the request.
func (m *middleware) handle(rec *recorder, r *http.Request) (panicked bool) {
	defer func() {
		p := recover()
		if rec.returned(p); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // as net/http has it
			m.opt.Logger.Error("a handler panicked", zap.String("source", route(r)), zap.Error(fmt.Errorf("panic: %v\n%s", p, debug.Stack())))
		}
		panicked = p != nil
	}()
	m.next.ServeHTTP(rec, r)
	return false
}

// rolledBack says whether the handler's transaction has failed, and nothing of it is there.
func rolledBack(a *ledger.Attempt) bool {
	state, err := a.State()
	return state == ledger.AttemptOpen && err != nil
}

// late says whether the answer is another one than what the handler's transaction has committed. Its status is not: the first one counts.
func late(a *ledger.Attempt, committed, res *idempotency.Result) bool {
	state, _ := a.State()
	return state == ledger.AttemptSucceeded && committed.Status != 0 &&
		(committed.Tombstone != res.Tombstone || !bytes.Equal(committed.Body, res.Body))
}

// again is the request with its body to be read.
func again(r *http.Request, body []byte) *http.Request {
	r.Body = io.NopCloser(bytes.NewReader(body))
	return r
}

// unprotected runs a request of which nothing is remembered.
func (m *middleware) unprotected(w http.ResponseWriter, r *http.Request, body []byte) {
	m.opt.Logger.Warn("the ledger does not answer: a request runs unprotected", zap.String("source", route(r)))
	m.next.ServeHTTP(w, again(r.WithContext(r.Context()), body))
}

// replay answers as it was answered.
func (m *middleware) replay(w http.ResponseWriter, r *http.Request, res *idempotency.Result) {
	if res.Tombstone != "" {
		m.tell(w, r, &Problem{Type: m.opt.TypeBase + NotReplayed, Title: "The request was done, and its answer could not be kept", Status: http.StatusConflict,
			Detail: res.Tombstone})
		return
	}
	h := w.Header()
	for _, x := range res.Headers {
		h.Del(x.Name) // what wraps the middleware may have set it, as it did then
	}
	for _, x := range res.Headers {
		h.Add(x.Name, string(x.Value))
	}
	h["Content-Type"] = nil // not guessed
	if res.MediaType != "" {
		h.Set("Content-Type", res.MediaType)
	}
	h.Set(m.opt.ReplayHeader, "true")
	w.WriteHeader(cmp.Or(res.Status, http.StatusOK)) // a handler's own SetResult may have none
	_, err := w.Write(res.Body)
	m.sent(r, err)
}

// tell answers with a problem.
func (m *middleware) tell(w http.ResponseWriter, r *http.Request, p *Problem) {
	if p.Status >= 500 && r.Context().Err() == nil {
		m.opt.Logger.Warn("a request was not answered as asked", zap.String("source", route(r)), zap.String("kind", p.Type), zap.Error(p.Err))
	}
	if m.opt.OnProblem != nil {
		m.opt.OnProblem(w, r, p)
		return
	}
	m.sent(r, p.write(w))
}

// sent notes that an answer did not reach its client, who gets it again.
func (m *middleware) sent(r *http.Request, err error) {
	if err != nil {
		m.opt.Logger.Debug("an answer was not sent", zap.String("source", route(r)), zap.Error(err))
	}
}
