package postgres

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/ackledger/ackledger/ledger"
)

// storedHeader is one header as JSON. Order and duplicates are kept, a null value is not an empty one, and a name that
// is no UTF-8 goes as bytes, since JSON would change it.
type storedHeader struct {
	Name  string `json:"name,omitempty"`
	Raw   []byte `json:"raw_name,omitempty"`
	Value []byte `json:"value"`
	Type  string `json:"type,omitempty"`
	RawTy []byte `json:"raw_type,omitempty"`
}

// encodeHeaders gives the stored form; nil stays nil, and no headers are not nil.
func encodeHeaders(headers []ledger.Header) []byte {
	if headers == nil {
		return nil
	}
	out := make([]storedHeader, len(headers))
	for i, h := range headers {
		s := storedHeader{Value: h.Value}
		s.Name, s.Raw = textOrBytes(h.Name)
		s.Type, s.RawTy = textOrBytes(h.Type)
		out[i] = s
	}
	return mustJSON(out)
}

func decodeHeaders(b []byte) ([]ledger.Header, error) {
	if b == nil {
		return nil, nil
	}
	var stored []storedHeader
	if err := json.Unmarshal(b, &stored); err != nil {
		return nil, fmt.Errorf("postgres: the stored headers cannot be read: %w", err)
	}
	out := make([]ledger.Header, len(stored))
	for i, s := range stored {
		out[i] = ledger.Header{Name: s.Name + string(s.Raw), Value: s.Value, Type: s.Type + string(s.RawTy)}
	}
	return out, nil
}

func textOrBytes(s string) (text string, raw []byte) {
	if utf8.ValidString(s) {
		return s, nil
	}
	return "", []byte(s)
}

type storedPosition struct {
	Log    []byte `json:"log"`
	Epoch  int32  `json:"epoch"`
	Offset int64  `json:"offset"`
	Prev   int64  `json:"prev"`
}

func encodePosition(p *ledger.Position) []byte {
	if p == nil {
		return nil
	}
	return mustJSON(storedPosition{Log: []byte(p.Log), Epoch: p.Epoch, Offset: p.Offset, Prev: p.Prev})
}

func decodePosition(b []byte) (*ledger.Position, error) {
	if b == nil {
		return nil, nil
	}
	var p storedPosition
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, fmt.Errorf("postgres: the stored position cannot be read: %w", err)
	}
	return &ledger.Position{Log: string(p.Log), Epoch: p.Epoch, Offset: p.Offset, Prev: p.Prev}, nil
}

// mustJSON encodes what has no way to fail: structs of text, bytes and numbers.
func mustJSON(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}
