package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
)

// Cipher is the user's encryption of archived deliveries, and of what waits in an outbox: body and headers are sealed before they are
// stored, and opened after they were read; so are results of runners and of steps, each as one text. Ids, groups, kinds and error texts stay readable, for lists. Safe for concurrent use.
//
// Which key sealed what, and its rotation, are the cipher's own matter: Open is given what any earlier Seal returned. An
// error of Seal means that the delivery cannot be archived now, so nothing is settled and nothing acknowledged.
type Cipher interface {
	Seal(ctx context.Context, plain []byte) ([]byte, error)
	Open(ctx context.Context, sealed []byte) ([]byte, error)
}

// The mark of a sealed archive: its only header. No broker gives a header this type, so no message can pretend to it.
const (
	sealName = "ackledger-sealed"
	sealType = "ackledger"
)

// Sealed says whether body and headers are those that a Cipher made.
func (a *Archive) Sealed() bool { return sealed(a.Headers) }

func sealed(headers []Header) bool {
	return len(headers) == 1 && headers[0].Name == sealName && headers[0].Type == sealType
}

// Seal replaces body and headers by their sealed form. An archive that is sealed stays as it is. Whoever settles calls it,
// before Limits.Archive is applied: the sealed form counts.
func (a *Archive) Seal(ctx context.Context, c Cipher) error {
	if err := seal(ctx, c, &a.Body, &a.Headers); err != nil {
		return fmt.Errorf("ledger: sealing the archive of %v: %w", a.Key, err)
	}
	return nil
}

// Open replaces the sealed form by body and headers. An archive that is not sealed stays as it is, so a cipher can be
// introduced at any time.
func (a *Archive) Open(ctx context.Context, c Cipher) error {
	if err := open(ctx, c, &a.Body, &a.Headers); err != nil {
		return fmt.Errorf("ledger: opening the archive of %v: %w", a.Key, err)
	}
	return nil
}

// Sealed says whether body and headers are those that a Cipher made.
func (m *Outgoing) Sealed() bool { return sealed(m.Headers) }

// Seal replaces body and headers by their sealed form, which is that of archives. Whoever publishes calls it, before bounds are applied. A
// message that is sealed stays as it is.
func (m *Outgoing) Seal(ctx context.Context, c Cipher) error {
	if err := seal(ctx, c, &m.Body, &m.Headers); err != nil {
		return fmt.Errorf("ledger: sealing a message for %q: %w", m.Target, err)
	}
	return nil
}

// Open replaces the sealed form by body and headers. Whoever relays calls it. A message that is not sealed stays as it is.
func (m *Outgoing) Open(ctx context.Context, c Cipher) error {
	if err := open(ctx, c, &m.Body, &m.Headers); err != nil {
		return fmt.Errorf("ledger: opening a message for %q: %w", m.Target, err)
	}
	return nil
}

func seal(ctx context.Context, c Cipher, body *[]byte, headers *[]Header) error {
	if sealed(*headers) {
		return nil
	}
	text, err := c.Seal(ctx, appendArchive(nil, *body, *headers))
	if err != nil {
		return err
	}
	*body, *headers = text, []Header{{Name: sealName, Value: []byte("1"), Type: sealType}}
	return nil
}

func open(ctx context.Context, c Cipher, body *[]byte, headers *[]Header) error {
	if !sealed(*headers) {
		return nil
	}
	text, err := c.Open(ctx, *body)
	if err != nil {
		return err
	}
	plain, list, err := readArchive(text)
	if err != nil {
		return err
	}
	*body, *headers = plain, list
	return nil
}

// appendArchive writes body and headers, each part with its length plus one: zero is nil, which is not empty.
func appendArchive(buf, body []byte, headers []Header) []byte {
	buf = appendSealed(buf, body)
	if headers == nil {
		return binary.AppendUvarint(buf, 0)
	}
	buf = binary.AppendUvarint(buf, uint64(len(headers))+1)
	for _, h := range headers {
		buf = appendSealed(buf, []byte(h.Name))
		buf = appendSealed(buf, h.Value)
		buf = appendSealed(buf, []byte(h.Type))
	}
	return buf
}

func appendSealed(buf, part []byte) []byte {
	if part == nil {
		return binary.AppendUvarint(buf, 0)
	}
	return append(binary.AppendUvarint(buf, uint64(len(part))+1), part...)
}

var errSealed = errors.New("what the cipher opened is not what was sealed")

// readArchive reads what appendArchive wrote. What it returns shares no bytes with buf.
func readArchive(buf []byte) (body []byte, headers []Header, err error) {
	r := sealReader{buf: buf}
	body = r.part()
	if n := r.length(); n > 0 {
		headers = make([]Header, 0, min(n-1, 100))
		for range n - 1 {
			h := Header{Name: string(r.part()), Value: r.part(), Type: string(r.part())}
			if r.bad {
				break
			}
			headers = append(headers, h)
		}
	}
	if r.bad || len(r.buf) > 0 {
		return nil, nil, errSealed
	}
	return body, headers, nil
}

type sealReader struct {
	buf []byte
	bad bool
}

func (r *sealReader) length() uint64 {
	n, size := binary.Uvarint(r.buf)
	if size <= 0 || n > uint64(len(r.buf))+1 {
		r.bad = true
		return 0
	}
	r.buf = r.buf[size:]
	return n
}

func (r *sealReader) part() []byte {
	n := r.length()
	if n == 0 {
		return nil
	}
	if n--; n > uint64(len(r.buf)) {
		r.bad = true
		return nil
	}
	out := append([]byte{}, r.buf[:n]...)
	r.buf = r.buf[n:]
	return out
}
