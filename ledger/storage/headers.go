package storage

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/ackledger/ackledger/ledger"
)

// storedHeader is one header as JSON. A name or type that is no UTF-8 goes as bytes, since JSON would change it.
type storedHeader struct {
	Name    string `json:"name,omitempty"`
	RawName []byte `json:"raw_name,omitempty"`
	Value   []byte `json:"value"`
	Type    string `json:"type,omitempty"`
	RawType []byte `json:"raw_type,omitempty"`
}

// EncodeHeaders gives the stored form of headers: JSON, which keeps order, duplicates and every byte; nil stays nil.
func EncodeHeaders(headers []ledger.Header) []byte {
	if headers == nil {
		return nil
	}
	stored := make([]storedHeader, len(headers))
	for i, h := range headers {
		s := &stored[i]
		s.Value = h.Value
		if s.Name = h.Name; !utf8.ValidString(h.Name) {
			s.Name, s.RawName = "", []byte(h.Name)
		}
		if s.Type = h.Type; !utf8.ValidString(h.Type) {
			s.Type, s.RawType = "", []byte(h.Type)
		}
	}
	b, _ := json.Marshal(stored) // text and bytes have no way to fail
	return b
}

// DecodeHeaders reads what EncodeHeaders wrote.
func DecodeHeaders(b []byte) ([]ledger.Header, error) {
	if b == nil {
		return nil, nil
	}
	var stored []storedHeader
	if err := json.Unmarshal(b, &stored); err != nil {
		return nil, fmt.Errorf("ledger: the stored headers cannot be read: %w", err)
	}
	headers := make([]ledger.Header, len(stored))
	for i, s := range stored {
		headers[i] = ledger.Header{Name: s.Name + string(s.RawName), Value: s.Value, Type: s.Type + string(s.RawType)}
	}
	return headers, nil
}
