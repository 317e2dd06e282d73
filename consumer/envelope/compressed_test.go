package envelope_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/ackledger/ackledger/consumer"
	"github.com/ackledger/ackledger/consumer/envelope"
)

func pack(t testing.TB, body string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(body)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func inBase64(body []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(body)) }

func TestGzip(t *testing.T) {
	body := strings.Repeat("order ", 100)
	packed := pack(t, body)
	for name, m := range map[string]consumer.Message{
		"Kafka": {Topic: "orders", Body: packed}, "SQS": {Body: inBase64(packed)}, "binary without a topic": {Body: packed},
		"two members": {Topic: "orders", Body: append(pack(t, body[:300]), pack(t, body[300:])...)},
	} {
		for _, most := range []int{0, len(body)} {
			var got seen
			before := string(m.Body)
			if err := envelope.Gzip(most)(&got).Handle(t.Context(), &m); err != nil || string(got.m.Body) != body || string(m.Body) != before {
				t.Errorf("%s, limit %d: %v", name, most, err)
			}
		}
		m.ID = "m1"
		want := fmt.Sprintf("gzip body of %d bytes: unpacks to more than the limit of %d bytes", len(m.Body), len(body)-1)
		refused(t, envelope.Gzip(len(body)-1)(&seen{}), m, want)
	}
	for _, m := range []consumer.Message{
		{}, {Body: []byte{}}, {Body: []byte("text")}, {Body: []byte{0x1f}}, {Body: []byte{0x1f, 0x8b}}, {Body: []byte("H4s")},
		{Topic: "orders", Body: inBase64(packed)}, // a record of Kafka is binary, if that is meant
	} {
		var got seen
		if err := envelope.Gzip(0)(&got).Handle(t.Context(), &m); err != nil || got.m != &m {
			t.Errorf("%q: %v, %+v", m.Body, err, got.m)
		}
	}
	if envelope.Gzip(0)(nil) != nil {
		t.Error("nil does not stay nil")
	}
}

func TestGzipRefusesByName(t *testing.T) {
	packed := pack(t, "SECRET body")
	for _, c := range []struct {
		body []byte
		want string
	}{
		{packed[:5], "gzip body of 5 bytes: unexpected EOF"},
		{packed[:len(packed)-8], "after 11 unpacked bytes: unexpected EOF"},
		{append(packed[:len(packed)-8:len(packed)-8], make([]byte, 8)...), "after 11 unpacked bytes: gzip: invalid checksum"},
		{append(bytes.Clone(packed), "SECRET"...), "after 11 unpacked bytes"},
		{[]byte("H4sI#SECRET"), "not base64: illegal base64 data at input byte 4"},
	} {
		refused(t, envelope.Gzip(0)(&seen{}), consumer.Message{Body: c.body}, c.want)
	}
}

// A bomb of 16 MiB in 16 KB costs no more than the limit.
func TestGzipBomb(t *testing.T) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	zeros := make([]byte, 1<<20)
	for range 16 {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	h := envelope.Gzip(1 << 20)(&seen{})
	refused(t, h, consumer.Message{Body: out.Bytes()}, "unpacks to more than the limit of 1048576 bytes")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_ = h.Handle(t.Context(), &consumer.Message{Body: out.Bytes()})
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20 {
		t.Errorf("%d bytes are allocated, for a limit of 1 MiB", n)
	}
}

func TestCompressedWithoutMagicUnpacksNothing(t *testing.T) {
	mw := envelope.Compressed("none", nil, 0, func(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(r), nil })
	var got seen
	m := consumer.Message{Body: []byte("x")}
	if err := mw(&got).Handle(t.Context(), &m); err != nil || got.m != &m {
		t.Errorf("%v, %+v", err, got.m)
	}
}

func FuzzGzip(f *testing.F) {
	packed := pack(f, "a body")
	f.Add(packed, true)
	f.Add(inBase64(packed), false)
	f.Add(packed[:9], true)
	f.Add([]byte("H4sI"), false)
	f.Fuzz(func(t *testing.T, body []byte, kafka bool) {
		m := consumer.Message{Body: body}
		if kafka {
			m.Topic = "orders"
		}
		var got seen
		err := envelope.Gzip(1000)(&got).Handle(t.Context(), &m)
		if err != nil && (!consumer.IsTerminal(err) || got.m != nil) || err == nil && got.m != &m && len(got.m.Body) > 1000 {
			t.Fatal(err)
		}
	})
}
