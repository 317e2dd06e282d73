package s3payload_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/consumer/consumertest"
	"github.com/ackledger/ackledger/formats/s3payload"
	"github.com/ackledger/ackledger/ledger"
)

// bucket is a stand-in for S3 with the buckets "payloads" and "others".
type bucket struct {
	mu      sync.Mutex
	objects map[string]string
	sums    map[string]string // x-amz-checksum-sha256 of an object
	fail    int               // a status instead of an answer; 0: none
	cut     int               // bytes by which an answer is shorter than it says
	zeros   int64             // the length of the object "zeros"
	asked   []string          // methods and keys
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/payloads/")
	b.asked = append(b.asked, r.Method+" "+key)
	object, ok := b.objects[key]
	if sum := b.sums[key]; sum != "" && r.Header.Get("X-Amz-Checksum-Mode") == "ENABLED" {
		w.Header().Set("X-Amz-Checksum-Sha256", sum)
	}
	switch {
	case b.fail != 0:
		w.WriteHeader(b.fail)
	case key == "zeros":
		w.Header().Set("Content-Length", fmt.Sprint(b.zeros))
		chunk := make([]byte, 1<<20)
		for left := b.zeros; left > 0; left -= int64(len(chunk)) {
			if _, err := w.Write(chunk[:min(left, int64(len(chunk)))]); err != nil {
				return
			}
		}
	case !ok && r.Method == http.MethodHead:
		w.WriteHeader(http.StatusNotFound)
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>NoSuchKey</Code><Message>gone</Message></Error>`)
	default:
		w.Header().Set("Content-Length", fmt.Sprint(len(object)))
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, object[:len(object)-b.cut])
		}
	}
}

// requests returns what was asked since it was asked last.
func (b *bucket) requests() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() { b.asked = nil }()
	return strings.Join(b.asked, ", ")
}

func start(t testing.TB, c s3payload.Config) (*bucket, *s3payload.Store) {
	t.Helper()
	b := &bucket{objects: map[string]string{}, sums: map[string]string{}}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	client := s3.New(s3.Options{
		BaseEndpoint: &server.URL, UsePathStyle: true, Region: "us-east-1", RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""), Retryer: aws.NopRetryer{},
	})
	c.Buckets = []string{"payloads"}
	s, err := s3payload.New(client, c)
	if err != nil {
		t.Fatal(err)
	}
	return b, s
}

// pointer is a message as the extended clients send it.
func pointer(key string, size any, more ...consumer.Header) consumer.Message {
	return consumer.Message{
		ID: "m1", Body: fmt.Appendf(nil, `["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":"payloads","s3Key":%q}]`, key),
		Headers: append([]consumer.Header{{Name: "ExtendedPayloadSize", Type: "Number", Value: fmt.Append(nil, size)}}, more...),
	}
}

// read is a handler that reads a body as a whole.
func read(got *string) func(context.Context, *consumer.Message, io.Reader) error {
	return func(_ context.Context, _ *consumer.Message, body io.Reader) error {
		all, err := io.ReadAll(body)
		*got = string(all)
		return err
	}
}

func TestBodies(t *testing.T) {
	b, s := start(t, s3payload.Config{})
	long := strings.Repeat("SECRET body ", 100_000)
	b.objects["k"], b.objects["empty"] = long, ""
	old := consumer.Message{
		ID: "m1", Body: []byte(`["com.amazon.sqs.javamessaging.MessageS3Pointer",{"s3BucketName":"payloads","s3Key":"k"}]`),
		Headers: []consumer.Header{{Name: "SQSLargePayloadSize", Value: fmt.Append(nil, len(long))}},
	}
	for name, c := range map[string]struct {
		m    consumer.Message
		want string
	}{
		"in S3": {pointer("k", len(long)), long}, "of an older client": {old, long}, "an empty object": {pointer("empty", 0), ""},
		"in the message": {consumer.Message{Body: []byte("short")}, "short"}, "a tombstone": {consumer.Message{}, ""},
		"what looks like a pointer": {consumer.Message{Body: pointer("k", 1).Body}, string(pointer("k", 1).Body)},
	} {
		var got string
		if err := s.Handler(read(&got)).Handle(t.Context(), &c.m); err != nil || got != c.want {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		before := string(c.m.Body)
		h := s.Bytes(len(long))(consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
			if string(m.Body) != c.want || (m.Body == nil) != (c.m.Body == nil) {
				t.Errorf("%s, in memory: %d bytes", name, len(m.Body))
			}
			return nil
		}))
		if err := h.Handle(t.Context(), &c.m); err != nil || string(c.m.Body) != before {
			t.Errorf("%s, in memory: %v", name, err)
		}
	}
	m := pointer("k", len(long))
	h := s.Bytes(len(long) - 1)(consumer.HandlerFunc(func(context.Context, *consumer.Message) error { t.Error("it ran"); return nil }))
	b.requests()
	want := fmt.Sprintf("message m1: the body in S3 must have at most %d bytes, has %d", len(long)-1, len(long))
	if err := h.Handle(t.Context(), &m); !consumer.IsTerminal(err) || err.Error() != want || b.requests() != "" {
		t.Errorf("%v, want %s", err, want)
	}
	if s.Handler(nil) != nil || s.Bytes(1)(nil) != nil {
		t.Error("nil does not stay nil")
	}
}

func TestAReaderEndsWithItsHandler(t *testing.T) {
	b, s := start(t, s3payload.Config{})
	b.objects["k"] = "body"
	var kept io.Reader
	failed := errors.New("mine")
	h := s.Handler(func(_ context.Context, _ *consumer.Message, body io.Reader) error { kept = body; return failed })
	m := pointer("k", 4)
	if err := h.Handle(t.Context(), &m); !errors.Is(err, failed) || consumer.IsTerminal(err) {
		t.Error(err)
	}
	if _, err := kept.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "read after its handler has returned") {
		t.Error(err)
	}
}

func TestWhatFails(t *testing.T) {
	b, s := start(t, s3payload.Config{Digest: "sha256"})
	b.objects["k"] = "SECRET"
	wrong := sha256.Sum256([]byte("another"))
	digest := func(v string) consumer.Header { return consumer.Header{Name: "sha256", Value: []byte(v)} }
	body := func(text string) consumer.Message {
		m := pointer("k", 6)
		m.Body = []byte(text)
		return m
	}
	const class = `"software.amazon.payloadoffloading.PayloadS3Pointer"`
	for _, c := range []struct {
		m    consumer.Message
		want string
	}{
		{pointer("gone", 6), "s3://payloads/gone: "},
		{pointer("k", 7), "s3://payloads/k must have 7 bytes, has 6"},
		{pointer("k", "SECRET"), "attribute ExtendedPayloadSize must be a number of 0 to 2147483648"},
		{pointer("k", -1), "attribute ExtendedPayloadSize must be a number of 0 to 2147483648, is \"-1\""},
		{pointer("k", 2<<30+1), `is "2147483649"`},
		{body(""), "S3 pointer: JSON ends too early at byte 0"},
		{body("SECRET"), "S3 pointer: not JSON at byte 1 of 6"},
		{body(`[]`), "must be a list of 2, is one of 0"},
		{body(`["SECRET",{}]`), "its class must be software.amazon.payloadoffloading.PayloadS3Pointer"},
		{body(`[5,{}]`), "its class: JSON at byte"},
		{body(`[` + class + `,"SECRET"]`), "its second part: JSON at byte"},
		{body(`[` + class + `,{"s3Key":"SECRET"}]`), "field s3BucketName is missing or empty"},
		{body(`[` + class + `,{"s3BucketName":"payloads"}]`), "field s3Key is missing or empty"},
		{body(`[` + class + `,{"s3BucketName":"others","s3Key":"k"}]`), `points into bucket "others", which Config.Buckets does not name`},
		{pointer("k", 6, digest("xy")), "attribute sha256 must have 64 hexadecimal digits, has 2 bytes"},
		{pointer("k", 6, digest(hex.EncodeToString(wrong[:]))), "the body's SHA-256 is not that of its attribute"},
	} {
		check := func(err error) {
			t.Helper()
			if !consumer.IsTerminal(err) || !strings.HasPrefix(err.Error(), "message m1: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		}
		var got string
		check(s.Handler(read(&got)).Handle(t.Context(), &c.m))
		check(s.Bytes(1000)(consumer.HandlerFunc(func(context.Context, *consumer.Message) error { return nil })).Handle(t.Context(), &c.m))
	}
	for name, spoil := range map[string]func(){
		"500": func() { b.fail = 500 }, "403": func() { b.fail = 403 }, "a connection that breaks": func() { b.cut = 3 },
	} {
		b.fail, b.cut = 0, 0
		spoil()
		m := pointer("k", 6)
		var got string
		if err := s.Handler(read(&got)).Handle(t.Context(), &m); err == nil || consumer.IsTerminal(err) {
			t.Errorf("%s: %v: it may pass", name, err)
		}
	}
}

// A producer sends one event twice: its body is in two objects, once in the message itself, and once it is another one.
func TestOneBodyInTwoObjects(t *testing.T) {
	body, other := strings.Repeat("x", 100), strings.Repeat("y", 100)
	sum := func(text string) []byte { s := sha256.Sum256([]byte(text)); return s[:] }
	stored := base64.StdEncoding.EncodeToString(sum(body))
	for name, c := range map[string]struct {
		config s3payload.Config
		sums   map[string]string
		header func(text string) []consumer.Header
		asked  string
	}{
		"read":                {asked: "HEAD one, GET one"},
		"S3's own":            {sums: map[string]string{"one": stored}, asked: "HEAD one"},
		"an object in parts":  {sums: map[string]string{"one": stored + "-2"}, asked: "HEAD one, GET one"},
		"a digest of another": {config: s3payload.Config{Digest: "other"}, asked: "HEAD one, GET one"},
		"the producer's": {config: s3payload.Config{Digest: "sha256"}, asked: "", header: func(text string) []consumer.Header {
			return []consumer.Header{{Name: "sha256", Value: []byte(hex.EncodeToString(sum(text)))}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b, s := start(t, c.config)
			b.objects = map[string]string{"one": body, "two": body, "three": other}
			b.sums = c.sums
			if c.header == nil {
				c.header = func(string) []consumer.Header { return nil }
			}
			first := pointer("one", 100, c.header(body)...)
			fingerprint, err := s.Fingerprint(&first)
			if asked := b.requests(); err != nil || !bytes.Equal(fingerprint, sum(body)) || asked != c.asked {
				t.Errorf("%x, %v; asked %q", fingerprint, err, asked)
			}
			var got string
			bench := consumertest.New(t, s.Handler(read(&got)), consumertest.Settings{Options: consumer.Options{
				KeyFunc: func(*consumer.Message) (string, error) { return "order-1", nil }, FingerprintFunc: s.Fingerprint,
			}})
			for i, m := range []consumer.Message{
				first, pointer("two", 100, c.header(body)...), {Body: []byte(body), Headers: c.header(body)}, pointer("three", 100, c.header(other)...),
			} {
				m.ID, m.Source = fmt.Sprint(i), "arn:aws:sqs:eu-west-1:123456789012:orders"
				want := []ledger.Answer{ledger.Run, ledger.Done, ledger.Done, ledger.Mismatch}[i]
				if r := bench.Deliver(m); r.Answer != want || r.Err != nil {
					t.Errorf("message %d: %+v, want %v", i, r, want)
				}
			}
			if got != body {
				t.Errorf("the handler has read %d bytes", len(got))
			}
		})
	}
}

func TestFingerprintFailsByName(t *testing.T) {
	b, s := start(t, s3payload.Config{Digest: "sha256", Timeout: time.Second})
	b.objects["k"] = "body"
	b.sums["k"] = base64.StdEncoding.EncodeToString(make([]byte, sha256.Size))
	elsewhere := pointer("k", 4)
	elsewhere.Body = bytes.Replace(elsewhere.Body, []byte("payloads"), []byte("others"), 1)
	for want, m := range map[string]consumer.Message{
		"s3://payloads/gone": pointer("gone", 4), "must have 5 bytes, has 4": pointer("k", 5), "must be a number": pointer("k", "x"),
		`into bucket "others"`: elsewhere, "64 hexadecimal digits": pointer("k", 4, consumer.Header{Name: "sha256"}),
	} {
		if got, err := s.Fingerprint(&m); got != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%x, %v, want %s", got, err, want)
		}
	}
	b.sums, b.cut = nil, 2
	m := pointer("k", 4)
	if got, err := s.Fingerprint(&m); got != nil || err == nil {
		t.Errorf("of a body that was cut: %x, %v", got, err)
	}
}

// A body of 64 MiB, with ACKLEDGER_LONG one of 2 GiB, is handled without having it in memory.
func TestALargeBodyIsNotInMemory(t *testing.T) {
	b, s := start(t, s3payload.Config{})
	b.zeros = 64 << 20
	if os.Getenv("ACKLEDGER_LONG") != "" {
		b.zeros = s3payload.MaxObject
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var n int64
	h := s.Handler(func(_ context.Context, _ *consumer.Message, body io.Reader) (err error) {
		n, err = io.Copy(io.Discard, body)
		return err
	})
	m := pointer("zeros", b.zeros)
	if err := h.Handle(t.Context(), &m); err != nil || n != b.zeros {
		t.Errorf("%d bytes, %v", n, err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("%d bytes were allocated for a body of %d", used, b.zeros)
	}
}

func TestNewRefusesByName(t *testing.T) {
	client := s3.New(s3.Options{Region: "us-east-1"})
	for want, build := range map[string]func() (*s3payload.Store, error){
		"the client must not be nil": func() (*s3payload.Store, error) { return s3payload.New(nil, s3payload.Config{}) },
		"Config.Buckets: must name":  func() (*s3payload.Store, error) { return s3payload.New(client, s3payload.Config{}) },
		"an empty name": func() (*s3payload.Store, error) {
			return s3payload.New(client, s3payload.Config{Buckets: []string{""}})
		},
		"must be 1s to 55s, is 1m0s": func() (*s3payload.Store, error) {
			return s3payload.New(client, s3payload.Config{Buckets: []string{"b"}, Timeout: time.Minute})
		},
	} {
		if s, err := build(); s != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	_, s := start(f, s3payload.Config{Digest: "sha256"})
	f.Add(pointer("k", 4).Body, "4", "")
	f.Add([]byte(`["a.PayloadS3Pointer",{}]`), "4", strings.Repeat("0", 64))
	f.Add([]byte(`{}`), "-1", "x")
	f.Fuzz(func(t *testing.T, body []byte, size, digest string) {
		m := pointer("k", size, consumer.Header{Name: "sha256", Value: []byte(digest)})
		m.Body = body
		p, ok, err := s3payload.Parse(&m)
		if ok == (err != nil) || err != nil && !consumer.IsTerminal(err) || ok && (p.Bucket == "" || p.Key == "" || p.Size < 0 || p.Size > s3payload.MaxObject) {
			t.Fatalf("%+v, %v, %v", p, ok, err)
		}
		if p.Bucket == "payloads" { // would be asked for
			return
		}
		h := s.Handler(func(context.Context, *consumer.Message, io.Reader) error { return nil })
		if err := h.Handle(t.Context(), &m); !consumer.IsTerminal(err) {
			t.Fatal(err)
		}
		_, _ = s.Fingerprint(&m)
	})
}
