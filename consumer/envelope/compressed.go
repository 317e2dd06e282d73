package envelope

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"io"

	"github.com/ackledger/ackledger/consumer"
)

// DefaultUnpacked is how many bytes an unpacked body may have at most, unless something else is said: 16 MiB.
const DefaultUnpacked = 16 << 20

// Gzip returns middleware that unpacks bodies which gzip (RFC 1952) has packed, up to most bytes each; 0 or less means
// [DefaultUnpacked]. One that unpacks to more fails for good, by the limit, so that a bomb costs no more memory than that: most times
// Options.Concurrency at once, which Options.MaxHeldBytes does not count.
//
// A packed body is known by its first bytes, which no text, JSON, Avro or Protobuf message begins with; every other body goes to next as
// it is, and so does a tombstone. The bodies of SQS are text: there, base64 of a packed body is unpacked.
func Gzip(most int) consumer.Middleware {
	return Compressed("gzip", []byte{0x1f, 0x8b, 8}, most, func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) })
}

// Compressed returns middleware for another format, as [Gzip]: name is what errors call it, magic the three or more bytes that each
// packed body begins with, open what unpacks. open is called concurrently; what it returns is closed. Package zstd beneath has one.
func Compressed(name string, magic []byte, most int, open func(io.Reader) (io.ReadCloser, error)) consumer.Middleware {
	if most <= 0 {
		most = DefaultUnpacked
	}
	u := &unpacker{name: name, magic: magic, most: most, open: open}
	u.text = []byte(base64.StdEncoding.EncodeToString(magic[:len(magic)/3*3]))
	return func(next consumer.Handler) consumer.Handler {
		if next == nil {
			return nil
		}
		return consumer.HandlerFunc(func(ctx context.Context, m *consumer.Message) error {
			packed, body, err := u.unpack(m)
			switch {
			case err != nil:
				return of(m, fmt.Errorf("%s body of %d bytes: %w", name, len(m.Body), err))
			case !packed:
				return next.Handle(ctx, m)
			}
			inner := *m
			inner.Body = body
			return next.Handle(ctx, &inner)
		})
	}
}

type unpacker struct {
	name        string
	magic, text []byte // what packed bodies begin with, and what their base64 does
	most        int
	open        func(io.Reader) (io.ReadCloser, error)
}

func (u *unpacker) unpack(m *consumer.Message) (packed bool, body []byte, err error) {
	raw := m.Body
	if m.Topic == "" && len(u.text) > 0 && bytes.HasPrefix(raw, u.text) {
		raw = make([]byte, base64.StdEncoding.DecodedLen(len(m.Body)))
		n, err := base64.StdEncoding.Decode(raw, m.Body)
		if err != nil {
			return true, nil, fmt.Errorf("not base64: %w", err)
		}
		raw = raw[:n]
	}
	if len(u.magic) == 0 || !bytes.HasPrefix(raw, u.magic) {
		return false, nil, nil
	}
	r, err := u.open(bytes.NewReader(raw))
	if err != nil {
		return true, nil, err
	}
	body, err = io.ReadAll(io.LimitReader(r, int64(u.most)+1))
	if closing := r.Close(); err == nil {
		err = closing
	}
	switch {
	case err != nil:
		return true, nil, fmt.Errorf("after %d unpacked bytes: %w", len(body), err)
	case len(body) > u.most:
		return true, nil, fmt.Errorf("unpacks to more than the limit of %d bytes", u.most)
	}
	return true, body, nil
}
