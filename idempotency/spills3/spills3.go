package spills3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/ackledger/ackledger/idempotency"
)

// Config says where results go. Bucket is required; the zero value of each other field means its default.
type Config struct {
	// Bucket is the bucket's name.
	Bucket string
	// Prefix begins each object's key, at most 512 bytes. Default: none. For people whose bucket has other objects, and whose lifecycle rule
	// is for these alone, such as "spilled/".
	Prefix string
	// Days is after how many days the bucket's lifecycle rule removes these objects. Default 0: there is no rule, and nothing is removed. A
	// result that is to be kept for longer is refused. For all who do not want to keep results for ever.
	Days int
}

const maxPrefix = 512 // bytes; an object's key has at most 1024 (docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html)

// Spill keeps results in a bucket. Build it with [New]. All methods may be called concurrently, by any number of processes.
type Spill struct {
	client *s3.Client
	c      Config
}

var _ idempotency.Spill = (*Spill)(nil)

// New builds a spill on a client of the caller's, whose credentials may PutObject and GetObject there, and ListBucket: without that S3
// answers "access denied" for what is gone, and a repetition gets an error instead of a tombstone
// (docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html). Nothing is sent before the first result.
func New(client *s3.Client, c Config) (*Spill, error) {
	switch {
	case client == nil:
		return nil, errors.New("spills3: New: the client must not be nil")
	case c.Bucket == "":
		return nil, errors.New("spills3: Config.Bucket: must not be empty")
	case len(c.Prefix) > maxPrefix:
		return nil, fmt.Errorf("spills3: Config.Prefix: must be at most %d bytes, is %d", maxPrefix, len(c.Prefix))
	case c.Days < 0:
		return nil, fmt.Errorf("spills3: Config.Days: must not be negative, is %d", c.Days)
	}
	return &Spill{client, c}, nil
}

// Put implements [idempotency.Spill]. S3 checks the content by its CRC32, and refuses a name that is there already.
func (s *Spill) Put(ctx context.Context, name string, data []byte, keep time.Duration) error {
	if most := time.Duration(s.c.Days) * 24 * time.Hour; s.c.Days > 0 && keep > most {
		return fmt.Errorf("spills3: a result is to be kept for %s, and Config.Days is %d: set a longer lifecycle rule, or a shorter window", keep, s.c.Days)
	}
	_, err := s.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.c.Bucket, Key: aws.String(s.c.Prefix + name), Body: bytes.NewReader(data), ContentLength: aws.Int64(int64(len(data))),
		ContentType: aws.String("application/octet-stream"), IfNoneMatch: aws.String("*"),
		ChecksumAlgorithm: types.ChecksumAlgorithmCrc32,
	})
	if err != nil {
		return fmt.Errorf("spills3: put into %s: %w", s.c.Bucket, err)
	}
	return nil
}

// Get implements [idempotency.Spill].
func (s *Spill) Get(ctx context.Context, name string, size int) (data []byte, err error) {
	key := s.c.Prefix + name
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.c.Bucket, Key: &key})
	if _, gone := errors.AsType[*types.NoSuchKey](err); gone {
		return nil, fmt.Errorf("spills3: %s has no %s: %w", s.c.Bucket, key, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("spills3: get from %s: %w", s.c.Bucket, err)
	}
	defer func() { err = errors.Join(err, out.Body.Close()) }()
	data, err = io.ReadAll(io.LimitReader(out.Body, int64(size)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("spills3: get from %s: %w", s.c.Bucket, err)
	case len(data) != size:
		return nil, fmt.Errorf("spills3: %s has %s, but not of %d bytes: %w", s.c.Bucket, key, size, fs.ErrNotExist)
	}
	return data, nil
}
