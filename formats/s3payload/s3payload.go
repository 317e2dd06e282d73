package s3payload

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/ackledger/ackledger/consumer"
)

// Config says what may be read. Buckets is required; the zero value of each other field means its default.
type Config struct {
	// Buckets are the names of the buckets that messages may point into.
	Buckets []string
	// Digest is the name of a message attribute that has the SHA-256 of the body, in 64 hexadecimal digits. Default: none. For people with
	// Options.KeyFunc whose producers can set one.
	Digest string
	// Timeout is how long a fingerprint may take, 1 s to 55 s. Default 50 s: a worker waits no longer than a minute for
	// Options.FingerprintFunc. For people who rather have a message fail than polling wait.
	Timeout time.Duration
}

// DefaultTimeout is that of Config.Timeout.
const DefaultTimeout = 50 * time.Second

// Store reads bodies out of buckets. Build it with [New]. All methods may be called concurrently.
type Store struct {
	client *s3.Client
	c      Config
}

// New builds a store on a client of the caller's, whose credentials may GetObject there, and ListBucket: without that S3 answers "access
// denied" for what is gone, and the message is tried again in vain (docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html). Nothing is
// sent before the first message.
func New(client *s3.Client, c Config) (*Store, error) {
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	switch {
	case client == nil:
		return nil, errors.New("s3payload: New: the client must not be nil")
	case len(c.Buckets) == 0:
		return nil, errors.New("s3payload: Config.Buckets: must name a bucket at least, names none")
	case slices.Contains(c.Buckets, ""):
		return nil, errors.New("s3payload: Config.Buckets: must not have an empty name")
	case c.Timeout < time.Second || c.Timeout > 55*time.Second:
		return nil, fmt.Errorf("s3payload: Config.Timeout: must be 1s to 55s, is %s", c.Timeout)
	}
	c.Buckets = slices.Clone(c.Buckets)
	return &Store{client, c}, nil
}

// Handler returns a handler that hands each body to f as a stream: from S3, or from the message itself. body is good until f returns, and
// needs not be read to its end. m is the message as it came; its Body is the pointer.
//
// A pointer that cannot be read, names another bucket, or whose object is gone or has another length, fails for good. Everything else that
// S3 answers is an error like any other, and so is a connection that breaks, which a Read returns: f returns it, and the message is tried
// again from its beginning. What has been read by then may be cut off or damaged: only at io.EOF the body was whole, by its length, by S3's
// checksum if the object has one for all of it, and by Config.Digest. A nil f gives nil, which workers refuse.
func (s *Store) Handler(f func(ctx context.Context, m *consumer.Message, body io.Reader) error) consumer.Handler {
	if f == nil {
		return nil
	}
	return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
		body, err := s.open(ctx, m)
		if err != nil {
			return err
		}
		defer body.close()
		return f(ctx, m, body)
	})
}

// Bytes returns middleware that reads bodies into memory: next sees them as the message's Body. One of more than most bytes fails for
// good, by the limit. Memory is needed for most times Options.Concurrency bytes, which Options.MaxHeldBytes does not count. A most of 0 or
// less lets no body through but those that are in the message itself.
func (s *Store) Bytes(most int) consumer.Middleware {
	return func(next consumer.Handler) consumer.Handler {
		if next == nil {
			return nil
		}
		return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
			p, ok, err := Parse(m)
			switch {
			case err != nil:
				return err
			case ok && p.Size > int64(most):
				return consumer.Terminal(fmt.Errorf("message %s: the body in S3 must have at most %d bytes, has %d", m.ID, max(most, 0), p.Size))
			}
			body, err := s.open(ctx, m)
			if err != nil {
				return err
			}
			defer body.close()
			inner := *m
			if inner.Body, err = body.all(); err != nil {
				return err
			}
			return next.Handle(ctx, &inner)
		})
	}
}

// open returns a message's body, and checks what is known of it before it is read.
func (s *Store) open(ctx context.Context, m *consumer.Message) (*body, error) {
	b := &body{id: m.ID, from: bytes.NewReader(m.Body), left: int64(len(m.Body)), tombstone: m.Body == nil}
	var err error
	if b.digest, b.sum, err = s.digest(m); err != nil {
		return nil, err
	}
	p, ok, err := Parse(m)
	if err != nil || !ok {
		return b, err
	}
	if err := s.allowed(m, p); err != nil {
		return nil, err
	}
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &p.Bucket, Key: &p.Key, ChecksumMode: types.ChecksumModeEnabled})
	if err != nil {
		return nil, answered(m, p, err)
	}
	b.from, b.left, b.tombstone = out.Body, p.Size, false
	b.closer = out.Body
	if n := out.ContentLength; n != nil && *n != p.Size {
		b.close()
		return nil, consumer.Terminal(fmt.Errorf("message %s: s3://%s/%s must have %d bytes, has %d", m.ID, p.Bucket, p.Key, p.Size, *n))
	}
	return b, nil
}

func (s *Store) allowed(m *consumer.Message, p Pointer) error {
	if slices.Contains(s.c.Buckets, p.Bucket) {
		return nil
	}
	return consumer.Terminal(fmt.Errorf("message %s: points into bucket %.100q, which Config.Buckets does not name", m.ID, p.Bucket))
}

// answered makes an error of S3's one of the message: what is gone will not come back.
func answered(m *consumer.Message, p Pointer, err error) error {
	_, noKey := errors.AsType[*types.NoSuchKey](err)
	_, notFound := errors.AsType[*types.NotFound](err) // of HeadObject, which has no body to say more
	err = fmt.Errorf("message %s: s3://%s/%s: %w", m.ID, p.Bucket, p.Key, err)
	if noKey || notFound {
		return consumer.Terminal(err)
	}
	return err
}

// body is a message's body as a reader, which checks it by its length and its digest.
type body struct {
	id        string
	from      io.Reader
	closer    io.Closer // nil: nothing is to be closed
	left      int64     // bytes to come
	tombstone bool
	digest    []byte // nil: there is none
	sum       hash.Hash
	closed    bool
}

// Read implements io.Reader. A body that ends early is an error that may pass; one that is too long, or another one, will stay so.
func (b *body) Read(p []byte) (int, error) {
	if b.closed {
		return 0, fmt.Errorf("message %s: the body is read after its handler has returned", b.id)
	}
	n, err := b.from.Read(p)
	b.left -= int64(n)
	if b.sum != nil {
		_, _ = b.sum.Write(p[:n]) // a hash returns no error
	}
	switch {
	case b.left < 0:
		return 0, consumer.Terminal(fmt.Errorf("message %s: the body in S3 is longer than the message says", b.id))
	case errors.Is(err, io.EOF) && b.left > 0:
		return n, fmt.Errorf("message %s: the body ends %d bytes early: %w", b.id, b.left, io.ErrUnexpectedEOF)
	case errors.Is(err, io.EOF) && b.sum != nil && !bytes.Equal(b.sum.Sum(nil), b.digest):
		return n, consumer.Terminal(fmt.Errorf("message %s: the body's SHA-256 is not that of its attribute", b.id))
	case err != nil && !errors.Is(err, io.EOF):
		return n, fmt.Errorf("message %s: read the body: %w", b.id, err)
	}
	return n, err
}

// all reads the body. A tombstone stays one.
func (b *body) all() ([]byte, error) {
	out := bytes.NewBuffer(make([]byte, 0, b.left+bytes.MinRead))
	if _, err := out.ReadFrom(b); err != nil {
		return nil, err
	}
	if b.tombstone {
		return nil, nil
	}
	return out.Bytes(), nil
}

func (b *body) close() {
	b.closed = true
	if b.closer != nil {
		_ = b.closer.Close() // what was read was checked by then
	}
}
