package sqlite

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/ackledger/ackledger/ledger"
)

// blob is a column in which null is not empty; the driver returns an empty one as a nil slice.
type blob []byte

// Scan implements sql.Scanner.
func (b *blob) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*b = nil
	case []byte:
		*b = append([]byte{}, v...)
	default:
		return fmt.Errorf("a blob was stored as %T", src)
	}
	return nil
}

// deadRow is an archive as it is stored.
type deadRow struct {
	a       *ledger.Archive
	errors  []byte
	headers []byte
}

func encodeArchive(a *ledger.Archive, limits ledger.Limits) (*deadRow, error) {
	var list []ledger.AttemptError
	for _, e := range a.Errors {
		list = ledger.AppendError(list, e, limits.Errors)
	}
	headers, err := encodeHeaders(a.Headers)
	if err != nil {
		return nil, &ledger.InvalidError{Field: "Archive.Headers", Bound: "headers that can be written as JSON",
			Value: fmt.Sprintf("%d headers", len(a.Headers)), Err: err}
	}
	return &deadRow{a: a, errors: ledger.EncodeErrors(list), headers: headers}, nil
}

// file writes an archive row, unless this delivery has one.
func (b *batch) file(s *ledger.Settlement, dead *deadRow, generation int) error {
	a, sum := dead.a, s.Ticket.Sum()
	scope, err := b.scope(a.Key.Scope)
	if err != nil {
		return err
	}
	_, err = b.exec(b.o.l.stmts.archive, sum[:], a.Delivery, scope, a.Key.ID, a.Fingerprint[:], int64(s.Ticket.Token()),
		generation, string(a.Kind), dead.errors, []byte(a.Source), []byte(a.Group), a.Attempts, micros(a.SentAt), a.Sent,
		b.now.UnixMicro(), b.now.Add(a.Keep).UnixMicro(), dead.headers, a.Body, encodePosition(a.Key.Pos))
	if err != nil {
		return fmt.Errorf("archiving %v: %w", a.Key, err)
	}
	return nil
}

// storedHeader is a header in JSON. Text that JSON cannot hold (it must be UTF-8) goes into the raw fields; a nil value
// is null, an empty one "".
type storedHeader struct {
	Name    string `json:"name"`
	RawName []byte `json:"raw_name,omitempty"`
	Value   []byte `json:"value"`
	Type    string `json:"type,omitempty"`
	RawType []byte `json:"raw_type,omitempty"`
}

// encodeHeaders keeps order, duplicates and every byte. No headers (nil) are null.
func encodeHeaders(headers []ledger.Header) ([]byte, error) {
	if headers == nil {
		return nil, nil
	}
	stored := make([]storedHeader, len(headers))
	for i, h := range headers {
		stored[i].Value = h.Value
		stored[i].Name, stored[i].RawName = splitText(h.Name)
		stored[i].Type, stored[i].RawType = splitText(h.Type)
	}
	return json.Marshal(stored)
}

func decodeHeaders(b []byte) ([]ledger.Header, error) {
	if b == nil {
		return nil, nil
	}
	var stored []storedHeader
	if err := json.Unmarshal(b, &stored); err != nil {
		return nil, fmt.Errorf("the stored headers cannot be read: %w", err)
	}
	headers := make([]ledger.Header, len(stored))
	for i, s := range stored {
		headers[i] = ledger.Header{Name: s.Name + string(s.RawName), Value: s.Value, Type: s.Type + string(s.RawType)}
	}
	return headers, nil
}

// storedPosition is a position in JSON.
type storedPosition struct {
	Log    []byte `json:"log"` // text that need not be UTF-8
	Epoch  int32  `json:"epoch"`
	Offset int64  `json:"offset"`
	Prev   int64  `json:"prev"`
}

func encodePosition(p *ledger.Position) []byte {
	if p == nil {
		return nil
	}
	b, _ := json.Marshal(storedPosition{Log: []byte(p.Log), Epoch: p.Epoch, Offset: p.Offset, Prev: p.Prev}) // cannot fail
	return b
}

func decodePosition(b []byte) (*ledger.Position, error) {
	if b == nil {
		return nil, nil
	}
	var p storedPosition
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, fmt.Errorf("the stored position cannot be read: %w", err)
	}
	return &ledger.Position{Log: string(p.Log), Epoch: p.Epoch, Offset: p.Offset, Prev: p.Prev}, nil
}

func splitText(s string) (text string, raw []byte) {
	if utf8.ValidString(s) {
		return s, nil
	}
	return "", []byte(s)
}

// maxSeconds is the last second whose microseconds fit into 64 bits, in about the year 294,000.
const maxSeconds = math.MaxInt64/1_000_000 - 1

// micros is a foreign timestamp as it is stored: null for the zero time; what is too far off is brought to the edge.
func micros(t time.Time) any {
	switch s := t.Unix(); {
	case t.IsZero():
		return nil
	case s > maxSeconds:
		return int64(math.MaxInt64)
	case s < -maxSeconds:
		return int64(math.MinInt64)
	}
	return t.UnixMicro()
}
