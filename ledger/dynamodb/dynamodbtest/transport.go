package dynamodbtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Options set up a [Transport]. The zero value hands everything on and counts requests.
type Options struct {
	// Base carries the requests; nil is an HTTP transport of this one's own.
	Base http.RoundTripper
	// Seed is of the chance that draws the faults. The nth request of an operation meets the same fault with the same seed.
	Seed uint64
	// Shares say how often what goes wrong. [Transport.Set] changes them.
	Shares Shares
	// Choose, if not nil, says what goes wrong instead of chance. Several goroutines may call it at once.
	Choose func(Call) Fault
	// Answers stand in for operations that the server does not know (an emulator without backups), by the operation: each gets a request's
	// JSON and returns the answer's.
	Answers map[string]func(body []byte) string
	// JoinSets hands on "SET a = 1 SET b = 2" of an UPDATE, as AWS documents it, as "SET a = 1 , b = 2", and REMOVE likewise. It is for
	// Dynoxide 1.2.1, which reads the second alone.
	JoinSets bool
	// Capacity counts capacity units as well. Each write is then followed and preceded by reads of its items behind the client's back,
	// so that it takes about three times as long.
	Capacity bool
	// Credentials sign anew what is changed on its way and what is read behind the client's back. Only AWS needs it: other servers
	// do not check signatures. Region is the one that is signed for.
	Credentials aws.CredentialsProvider
	Region      string
}

// Transport is the way between a client and DynamoDB, on which things go wrong: an [http.RoundTripper] for the SDK's HTTPClient. It is
// safe for concurrent use.
type Transport struct {
	options Options
	base    http.RoundTripper
	done    chan struct{}
	close   sync.Once
	late    sync.WaitGroup

	mu     sync.Mutex
	shares Shares
	usage  Usage
	tables map[string]*table
	tokens map[string]bool
}

// New makes a transport. The error names the share that is out of bounds.
func New(o Options) (*Transport, error) {
	if err := o.Shares.check(); err != nil {
		return nil, err
	}
	t := &Transport{options: o, base: o.Base, shares: o.Shares, done: make(chan struct{}), tables: map[string]*table{}, tokens: map[string]bool{}}
	if t.base == nil {
		t.base = &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024, IdleConnTimeout: time.Minute}
	}
	t.usage = Usage{Calls: map[string]int{}, Delivered: map[string]int{}, Units: map[string]Units{}, Faults: map[Kind]int{}}
	return t, nil
}

// Set changes how often what goes wrong, for requests from now on.
func (t *Transport) Set(s Shares) error {
	if err := s.check(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.shares = s
	return nil
}

// Wait waits until nothing is held back any more. Its caller sees to it that no request is made meanwhile.
func (t *Transport) Wait() { t.late.Wait() }

// Close throws away what is held back, waits for what is under way late, and closes idle connections. It is for the end of a test.
func (t *Transport) Close() {
	t.close.Do(func() { close(t.done) })
	t.late.Wait()
	if idle, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		idle.CloseIdleConnections()
	}
}

// call is a request on its way.
type call struct {
	request   *http.Request // without its body
	operation string
	body      []byte
	signed    []byte // the body that the client signed
}

// answer is what the server said.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// operationOf is the operation that a request asks for: DynamoDB_20120810.GetItem.
func operationOf(r *http.Request) string {
	target := r.Header.Get("X-Amz-Target")
	return target[strings.LastIndexByte(target, '.')+1:]
}

// errCut is what a client sees of a connection that was closed on it.
var errCut = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

// RoundTrip carries a request out, or does to it what its fault says.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	c := &call{request: r, operation: operationOf(r)}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err = errors.Join(err, r.Body.Close()); err != nil {
			return nil, err
		}
		c.body, c.signed = body, body
	}
	if t.options.JoinSets {
		if err := c.joinSets(); err != nil {
			return nil, err
		}
	}
	f := t.choose(c)
	a, err := t.meet(r.Context(), c, f)
	if err != nil {
		return nil, err
	}
	return a.response(r), nil
}

// meet is a request's way with its fault.
func (t *Transport) meet(ctx context.Context, c *call, f Fault) (*answer, error) {
	switch f.Kind {
	case Refused:
		return refusal(c, f.Code), nil
	case RequestLost:
		return nil, errCut
	case AnswerLost:
		if _, err := t.withParts(context.WithoutCancel(ctx), c, f); err != nil {
			return nil, err
		}
		return nil, errCut
	case Late:
		return t.hold(ctx, c, f)
	case Twice:
		again := *c
		a, err := t.withParts(ctx, c, f)
		t.afterwards(ctx, f.Wait, func(ctx context.Context) {
			_, _ = t.deliver(ctx, &again) // nobody waits for this answer
		}, func() {})
		return a, err
	default:
		return t.withParts(ctx, c, f)
	}
}

// hold delivers a request later, whether its client still waits or not.
func (t *Transport) hold(ctx context.Context, c *call, f Fault) (*answer, error) {
	type result struct {
		*answer
		error
	}
	came := make(chan result, 1)
	t.afterwards(ctx, f.Wait, func(late context.Context) {
		a, err := t.withParts(late, c, f)
		came <- result{a, err}
	}, func() { came <- result{nil, errCut} })
	select {
	case r := <-came:
		return r.answer, r.error
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// afterwards does something later, without the client's deadline; dropped is called instead when the transport is closed before.
func (t *Transport) afterwards(ctx context.Context, wait time.Duration, do func(context.Context), dropped func()) {
	ctx = context.WithoutCancel(ctx)
	t.late.Go(func() {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-t.done:
			dropped()
		case <-timer.C:
			do(ctx)
		}
	})
}

// send brings a request to the server and reads the whole answer.
func (t *Transport) send(ctx context.Context, c *call) (*answer, error) {
	if stand := t.options.Answers[c.operation]; stand != nil {
		return &answer{status: http.StatusOK, header: http.Header{}, body: []byte(stand(c.body))}, nil
	}
	r := c.request.Clone(ctx)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(c.body)), int64(len(c.body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(c.body)), nil }
	if !bytes.Equal(c.body, c.signed) {
		if err := t.sign(ctx, r, c.body); err != nil {
			return nil, err
		}
	}
	if strings.HasSuffix(c.operation, "Table") {
		t.mu.Lock()
		clear(t.tables)
		t.mu.Unlock()
	}
	response, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return &answer{status: response.StatusCode, header: response.Header, body: body}, err
}

// sign makes a changed request's signature good.
func (t *Transport) sign(ctx context.Context, r *http.Request, body []byte) error {
	if t.options.Credentials == nil {
		return nil
	}
	credentials, err := t.options.Credentials.Retrieve(ctx)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	return v4.NewSigner().SignHTTP(ctx, credentials, r, hex.EncodeToString(sum[:]), "dynamodb", t.options.Region, time.Now())
}

// own asks the server something behind the client's back, with the headers of the client's request.
func (t *Transport) own(ctx context.Context, c *call, operation string, input, output any) error {
	body, err := json.Marshal(input)
	if err != nil {
		return err
	}
	r := c.request.Clone(ctx)
	target := r.Header.Get("X-Amz-Target")
	r.Header.Set("X-Amz-Target", strings.TrimSuffix(target, c.operation)+operation)
	a, err := t.send(ctx, &call{request: r, body: body})
	if err != nil {
		return err
	}
	if a.status != http.StatusOK && !bytes.Contains(a.body, []byte("ResourceNotFound")) {
		return fmt.Errorf("dynamodbtest: %s: %d %s", operation, a.status, a.body)
	}
	return json.Unmarshal(a.body, output)
}

// response is the answer as a client gets it.
func (a *answer) response(r *http.Request) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)), StatusCode: a.status, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: maps.Clone(a.header), Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)),
	}
}
