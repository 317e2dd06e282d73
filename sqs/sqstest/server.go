package sqstest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// Options set up a Server. The zero value is a server as AWS documents it, on
// the real clock.
type Options struct {
	// Clock is the server's time; nil is the real one. A [ManualClock] is for
	// tests of timeouts, retention and deduplication.
	Clock Clock
	// MaxInFlight is how many messages of a queue may be in flight; zero is
	// 120,000. Lower it to test what a consumer does on OverLimit.
	MaxInFlight int
	// MaxBytes bounds the messages held in all queues together, in bytes, with
	// 512 B counted for each beside its content; zero is 256 MiB. A send past it
	// is answered with 503 ServiceUnavailable. Raise it for big backlogs.
	MaxBytes int64
	// StaleDelete makes a standard queue delete by an older receipt handle as
	// well. AWS leaves open whether it does; a test that wants the lenient
	// reading sets it.
	StaleDelete bool
	// Observe, if not nil, is told of every call after it was performed and
	// before it is answered, from the call's goroutine, so by several at once. For
	// assertions such as "no visibility was ever set to 0". It must not wait for
	// the server.
	Observe func(Call)
}

func (o *Options) validate() error {
	if o.MaxInFlight < 0 {
		return fmt.Errorf("sqstest: Options.MaxInFlight must be at least 0, got %d", o.MaxInFlight)
	}
	if o.MaxBytes < 0 {
		return fmt.Errorf("sqstest: Options.MaxBytes must be at least 0, got %d", o.MaxBytes)
	}
	return nil
}

// Server is an SQS server on a loopback port. It is safe for concurrent use.
type Server struct {
	// URL is the endpoint, without a trailing slash: the client's BaseEndpoint.
	URL string

	options Options
	clock   Clock
	http    *httptest.Server
	client  *http.Client
	done    chan struct{}
	close   sync.Once

	mu       sync.Mutex
	serial   uint64
	queues   map[string]*queue
	messages map[uint64]*message
	bytes    int64
	calls    map[string]int
	faults   []*fault
}

// TB is the part of testing.TB that Start needs.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Start starts a server that is closed with the test. Nil options are the zero
// Options; what is wrong with them fails the test.
func Start(tb TB, options *Options) *Server {
	tb.Helper()
	s, err := New(options)
	if err != nil {
		tb.Fatalf("%v", err)
		return nil
	}
	tb.Cleanup(s.Close)
	return s
}

// New starts a server; Close ends it. Nil options are the zero Options. The
// error names the option that is out of bounds, or says why no port could be
// opened.
func New(options *Options) (*Server, error) {
	s := &Server{
		done: make(chan struct{}), queues: map[string]*queue{}, messages: map[uint64]*message{}, calls: map[string]int{},
	}
	if options != nil {
		s.options = *options
	}
	if err := s.options.validate(); err != nil {
		return nil, err
	}
	if s.options.MaxInFlight == 0 {
		s.options.MaxInFlight = defaultInFlight
	}
	if s.options.MaxBytes == 0 {
		s.options.MaxBytes = defaultMaxBytes
	}
	if s.clock = s.options.Clock; s.clock == nil {
		s.clock = realClock{}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("sqstest: open a port on the loopback interface: %w", err)
	}
	s.http = &httptest.Server{Listener: listener, Config: &http.Server{Handler: s, ReadHeaderTimeout: unused}}
	s.http.Start()
	s.URL = s.http.URL
	s.client = HTTPClient()
	return s, nil
}

// unused is how long a connection may be open before its first request. The SDK
// keeps one that it has opened in vain for 90 s, [HTTPClient] for half of this; a
// server that closed it earlier would reset the request that comes at that moment.
const unused = 2 * time.Minute

// Close ends open long polls and delayed answers, then the server. It may be
// called again.
func (s *Server) Close() {
	s.close.Do(func() {
		close(s.done)
		s.client.CloseIdleConnections()
		s.http.Close()
	})
}

// Client is an official SDK client of this server; options come last and may
// change anything. Its connections are closed with the server.
func (s *Server) Client(options ...func(*sqs.Options)) *sqs.Client {
	return sqs.New(sqs.Options{
		BaseEndpoint: aws.String(s.URL),
		Region:       region,
		HTTPClient:   s.client,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "sqstest", SecretAccessKey: "sqstest"}, nil
		}),
	}, options...)
}

// Now is the server's time.
func (s *Server) Now() time.Time { return s.clock.Now() }

// next is a number not given out before. The lock is held.
func (s *Server) next() uint64 {
	s.serial++
	return s.serial
}

// reserve takes a new message into account. The lock is held.
func (s *Server) reserve(m *message) *apiError {
	size := int64(m.content.size + messageOverhead)
	if s.bytes+size > s.options.MaxBytes {
		return fail(CodeUnavailable, "sqstest: %d bytes are held and %d more would pass Options.MaxBytes = %d.",
			s.bytes, size, s.options.MaxBytes)
	}
	s.bytes += size
	s.messages[m.serial] = m
	return nil
}

// release forgets a message. The lock is held.
func (s *Server) release(m *message) {
	s.bytes -= int64(m.content.size + messageOverhead)
	delete(s.messages, m.serial)
}

// nameOf is the queue's name in a queue URL or ARN.
func nameOf(address string) string {
	if name, ok := strings.CutPrefix(address, arnPrefix); ok {
		return name
	}
	return address[strings.LastIndexByte(address, '/')+1:]
}

func (s *Server) queueURL(name string) string { return s.URL + "/" + accountID + "/" + name }

// find is the queue of a URL, at the present. The lock is held.
func (s *Server) find(address string, now time.Time) (*queue, *apiError) {
	if address == "" {
		return nil, errMissing("QueueUrl")
	}
	q := s.queues[nameOf(address)]
	if q == nil {
		return nil, errNoQueue(nameOf(address))
	}
	q.advance(now)
	return q, nil
}

// inQueue runs f under the lock on a queue at the present, and wakes its polls.
func (s *Server) inQueue(address string, f func(q *queue, now time.Time) *apiError) *apiError {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	q, err := s.find(address, now)
	if err != nil {
		return err
	}
	defer q.wake()
	return f(q, now)
}
