package zstd_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	packer "github.com/klauspost/compress/zstd"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/consumer/envelope/zstd"
)

func pack(t testing.TB, body []byte, options ...packer.EOption) []byte {
	t.Helper()
	w, err := packer.NewWriter(nil, options...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	return w.EncodeAll(body, nil)
}

// unpack returns the body that a handler behind the middleware gets; nil: it was not called.
func unpack(t testing.TB, most int, m consumer.Message) (body []byte, err error) {
	t.Helper()
	h := zstd.Body(most)(consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error { body = m.Body; return nil }))
	m.ID = "m1"
	return body, h.Handle(t.Context(), &m)
}

func TestBody(t *testing.T) {
	body := strings.Repeat("order ", 100)
	packed := pack(t, []byte(body))
	text := []byte(base64.StdEncoding.EncodeToString(packed))
	for name, m := range map[string]consumer.Message{"Kafka": {Topic: "orders", Body: packed}, "SQS": {Body: text}} {
		if got, err := unpack(t, 0, m); err != nil || string(got) != body {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		want := fmt.Sprintf("message m1: zstd body of %d bytes: unpacks to more than the limit of %d bytes", len(m.Body), len(body)-1)
		if got, err := unpack(t, len(body)-1, m); got != nil || err == nil || err.Error() != want || !consumer.IsTerminal(err) {
			t.Errorf("%s, limited: %v, want %s", name, err, want)
		}
	}
	for _, plain := range []string{"text", "\x28\xb5\x2f", "KLUv", `{"a":1}`} {
		if got, err := unpack(t, 0, consumer.Message{Body: []byte(plain)}); err != nil || string(got) != plain {
			t.Errorf("%q: %q, %v", plain, got, err)
		}
	}
	for name, cut := range map[string][]byte{"cut": packed[:len(packed)-6], "magic alone": packed[:4]} {
		if got, err := unpack(t, 0, consumer.Message{Topic: "orders", Body: cut}); got != nil || !consumer.IsTerminal(err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A frame may ask for a window of any size before it has unpacked a byte.
func TestALargeWindowIsRefused(t *testing.T) {
	random := make([]byte, 17<<20)
	source := rand.NewChaCha8([32]byte{})
	_, _ = source.Read(random)
	packed := pack(t, random, packer.WithWindowSize(16<<20), packer.WithSingleSegment(false))
	got, err := unpack(t, 64<<20, consumer.Message{Topic: "orders", Body: packed})
	if got != nil || !consumer.IsTerminal(err) || !strings.Contains(err.Error(), "window size exceeded") {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestABombCostsNoMoreThanItsLimit(t *testing.T) {
	packed := pack(t, make([]byte, 64<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := unpack(t, 1<<20, consumer.Message{Topic: "orders", Body: packed})
	runtime.ReadMemStats(&after)
	if !consumer.IsTerminal(err) || !strings.Contains(err.Error(), "more than the limit of 1048576 bytes") {
		t.Error(err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
		t.Errorf("%d bytes are allocated for %d packed ones, with a limit of 1 MiB", n, len(packed))
	}
}

func FuzzBody(f *testing.F) {
	packed := pack(f, []byte("a body"))
	f.Add(packed, true)
	f.Add([]byte(base64.StdEncoding.EncodeToString(packed)), false)
	f.Add(packed[:7], true)
	f.Fuzz(func(t *testing.T, body []byte, kafka bool) {
		m := consumer.Message{Body: body}
		if kafka {
			m.Topic = "orders"
		}
		got, err := unpack(t, 1000, m)
		if err != nil && (!consumer.IsTerminal(err) || got != nil) || len(got) > max(1000, len(body)) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	})
}

func Example() {
	handler := consumer.Chain(consumer.HandlerFunc(func(_ context.Context, m *consumer.Message) error {
		fmt.Printf("%s\n", m.Body)
		return nil
	}), zstd.Body(1<<20)) // up to a megabyte
	m := consumer.Message{ID: "m1", Body: []byte("KLUv/QQAaQAAYSBwYWNrZWQgYm9keU7lkQI=")}
	fmt.Println(handler.Handle(context.Background(), &m))
	// Output:
	// a packed body
	// <nil>
}
