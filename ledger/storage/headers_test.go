package storage_test

import (
	"reflect"
	"testing"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// Order, duplicates and every byte come back, and nil is not empty.
func TestHeadersComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string][]ledger.Header{
		"none":       nil,
		"empty":      {},
		"values":     {{Name: "a"}, {Name: "a", Value: []byte{}}, {Name: "a", Value: []byte("\x00\xff"), Type: "Binary"}},
		"no UTF-8":   {{Name: "\xff", Value: []byte("v"), Type: "\xfe"}, {}},
		"duplicates": {{Name: "b", Value: []byte("2")}, {Name: "a"}, {Name: "b", Value: []byte("1")}},
	} {
		got, err := storage.DecodeHeaders(storage.EncodeHeaders(headers))
		if err != nil || !reflect.DeepEqual(got, headers) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, headers)
		}
	}
	if got, err := storage.DecodeHeaders([]byte("{")); err == nil {
		t.Errorf("damaged headers are read as %+v", got)
	}
}
