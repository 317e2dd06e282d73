package spills3_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/ackledger/ackledger/idempotency"
	"github.com/ackledger/ackledger/idempotency/spills3"
	"github.com/ackledger/ackledger/ledger/memory"
)

// bucket is a stand-in for S3 with one bucket, which checks what it is asked.
type bucket struct {
	t  *testing.T
	mu sync.Mutex

	objects map[string][]byte
	answer  int // instead of an answer; 0: none
	cut     int // bytes by which an answer is shorter than it says
}

// s3Error is an error as S3 says it (docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html).
func s3Error(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>so it is</Message></Error>`, code)
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key, ok := strings.CutPrefix(r.URL.Path, "/answers/")
	if !ok || !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ") {
		b.t.Errorf("%s %s, %q", r.Method, r.URL, r.Header)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		b.t.Error(err)
	}
	object, there := b.objects[key]
	switch {
	case b.answer != 0:
		s3Error(w, b.answer, "InternalError")
	case r.Method == http.MethodPut && r.Header.Get("If-None-Match") == "*" && there:
		s3Error(w, http.StatusPreconditionFailed, "PreconditionFailed")
	case r.Method == http.MethodPut:
		h := crc32.NewIEEE()
		_, _ = h.Write(body)
		sum := base64.StdEncoding.EncodeToString(h.Sum(nil))
		if r.ContentLength != int64(len(body)) || r.Header.Get("X-Amz-Checksum-Crc32") != sum || r.Header.Get("Content-Type") != "application/octet-stream" {
			b.t.Errorf("PUT of %d bytes, %s: %q", len(body), sum, r.Header)
		}
		b.objects[key] = body
	case r.Method == http.MethodGet && there:
		w.Header().Set("Content-Length", fmt.Sprint(len(object)))
		_, _ = w.Write(object[:len(object)-b.cut])
	case r.Method == http.MethodGet:
		s3Error(w, http.StatusNotFound, "NoSuchKey")
	default:
		b.t.Errorf("%s %s", r.Method, r.URL)
	}
}

func newBucket(t *testing.T) (*bucket, *s3.Client) {
	t.Helper()
	b := &bucket{t: t, objects: map[string][]byte{}}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	return b, connect(server.URL)
}

func connect(endpoint string) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: &endpoint, UsePathStyle: true, Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		RetryMaxAttempts: 1,
	})
}

func newSpill(t *testing.T, client *s3.Client, c spills3.Config) *spills3.Spill {
	t.Helper()
	c.Bucket = "answers"
	s, err := spills3.New(client, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// data is what is put: a megabyte of all bytes.
var data = []byte(strings.Repeat("\x00\xff data", 1<<17))

func TestPutAndGet(t *testing.T) {
	t.Parallel()
	b, client := newBucket(t)
	s := newSpill(t, client, spills3.Config{Prefix: "spilled/"})
	if err := s.Put(t.Context(), "a", data, time.Hour); err != nil {
		t.Fatal(err)
	}
	if string(b.objects["spilled/a"]) != string(data) {
		t.Errorf("%d bytes are there", len(b.objects["spilled/a"]))
	}
	if err := s.Put(t.Context(), "a", []byte("another"), time.Hour); err == nil {
		t.Error("a name is put twice")
	}
	if got, err := s.Get(t.Context(), "a", len(data)); err != nil || string(got) != string(data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	for name, size := range map[string]int{"a": len(data) - 1, "b": len(data)} {
		if got, err := s.Get(t.Context(), name, size); !errors.Is(err, fs.ErrNotExist) || got != nil {
			t.Errorf("%s of %d: %d bytes, %v", name, size, len(got), err)
		}
	}
}

// What fails is never taken for what is gone, and nothing is half an answer.
func TestFailures(t *testing.T) {
	t.Parallel()
	b, client := newBucket(t)
	s := newSpill(t, client, spills3.Config{})
	if err := s.Put(t.Context(), "a", data, time.Hour); err != nil {
		t.Fatal(err)
	}
	check := func(what string, errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "spills3: ") {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	get := func(ctx context.Context) error {
		got, err := s.Get(ctx, "a", len(data))
		if got != nil && err != nil {
			t.Errorf("%d bytes with %v", len(got), err)
		}
		return err
	}
	b.cut = 10
	check("an answer that is cut", get(t.Context()))
	b.cut = 0
	for _, status := range []int{http.StatusInternalServerError, http.StatusForbidden, http.StatusServiceUnavailable} {
		b.answer = status
		check(fmt.Sprint(status), get(t.Context()), s.Put(t.Context(), "b", data, time.Hour))
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	check("nobody waits", get(gone), s.Put(gone, "c", data, time.Hour))
}

// Nothing is put that the bucket's rule removes before its time.
func TestDays(t *testing.T) {
	t.Parallel()
	b, client := newBucket(t)
	s := newSpill(t, client, spills3.Config{Days: 2})
	if err := s.Put(t.Context(), "a", data, 48*time.Hour+1); err == nil || !strings.Contains(err.Error(), "Config.Days is 2") || len(b.objects) != 0 {
		t.Errorf("%d objects, %v", len(b.objects), err)
	}
	if err := s.Put(t.Context(), "a", data, 48*time.Hour); err != nil || len(b.objects) != 1 {
		t.Errorf("%d objects, %v", len(b.objects), err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	_, client := newBucket(t)
	for want, c := range map[string]spills3.Config{
		"Bucket: must not be empty": {}, "Days: must not be negative, is -1": {Bucket: "b", Days: -1},
		"at most 512 bytes, is 513": {Bucket: "b", Prefix: strings.Repeat("p", 513)},
	} {
		if _, err := spills3.New(client, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, is %v", want, err)
		}
	}
	if _, err := spills3.New(nil, spills3.Config{Bucket: "b"}); err == nil {
		t.Error("without a client")
	}
}

// A runner answers again what lies in the bucket, and with a tombstone what has gone.
func TestARunnersAnswers(t *testing.T) {
	t.Parallel()
	b, client := newBucket(t)
	r, err := idempotency.New(memory.New(), idempotency.Options{Spill: newSpill(t, client, spills3.Config{})})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for deadline := time.Now().Add(time.Minute); !r.Health().Ready; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not start")
		}
	}
	runs := 0
	do := func() idempotency.Outcome {
		out, err := r.Do(t.Context(), idempotency.Request{Scope: "s", Key: "k"}, func(context.Context) (idempotency.Result, error) {
			runs++
			return idempotency.Result{Body: data}, nil
		})
		if err != nil {
			t.Error(err)
		}
		return out
	}
	for again := range 2 {
		if out := do(); string(out.Result.Body) != string(data) || out.Replayed != (again == 1) {
			t.Errorf("%d: %d bytes", again, len(out.Result.Body))
		}
	}
	b.mu.Lock()
	clear(b.objects)
	b.mu.Unlock()
	if out := do(); out.Result.Tombstone == "" || runs != 1 {
		t.Errorf("%+v after %d runs", out, runs)
	}
}

// The same on a server that speaks S3, such as moto's or MinIO, where one is named: its URL, with any credentials.
func TestOnAServer(t *testing.T) {
	t.Parallel()
	endpoint := os.Getenv("ACKLEDGER_TEST_S3")
	if endpoint == "" {
		t.Skip("ACKLEDGER_TEST_S3 names no server")
	}
	client := connect(endpoint)
	name := strings.ToLower(fmt.Sprint("a", time.Now().UnixNano()))
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("answers")}); err != nil && !strings.Contains(err.Error(), "BucketAlready") {
		t.Fatal(err)
	}
	s := newSpill(t, client, spills3.Config{Prefix: "spilled/"})
	if err := s.Put(t.Context(), name, data, time.Hour); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(t.Context(), name, len(data)); err != nil || string(got) != string(data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := s.Put(t.Context(), name, []byte("another"), time.Hour); err == nil {
		t.Error("a name is put twice")
	}
	if _, err := s.Get(t.Context(), "no"+name, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
}
