package sqlite

import (
	"reflect"
	"testing"

	"github.com/ackledger/ackledger/ledger"
	"github.com/ackledger/ackledger/ledger/storage"
)

// Whatever a header holds: it comes back from the archive to the byte; and whatever lies in the archive is read or refused.
func FuzzStoredHeaders(f *testing.F) {
	f.Add("name", []byte("value"), "String", []byte(`[{"name":"a","raw_name":"/w==","value":null}]`))
	f.Add("\xff\x00", []byte(nil), "\xed\xa0\x80", []byte(`[null,{"name":1}]`))
	f.Add("", []byte{}, "", []byte(`{}`))
	f.Fuzz(func(t *testing.T, name string, value []byte, kind string, stored []byte) {
		want := []ledger.Header{{Name: name, Value: value, Type: kind}, {}, {Name: name}}
		b := storage.EncodeHeaders(want)
		got, err := storage.DecodeHeaders(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %v, want %v, %v", b, got, want, err)
		}
		if headers, err := storage.DecodeHeaders(stored); err == nil && stored != nil && headers == nil {
			t.Fatalf("%q: neither headers nor an error", stored)
		}
		if at, err := decodePosition(stored); err == nil && stored != nil && at == nil {
			t.Fatalf("%q: neither a position nor an error", stored)
		}
	})
}
