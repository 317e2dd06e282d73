package marks_test

import (
	"reflect"
	"testing"

	"github.com/ackledger/ackledger/internal/marks"
	"github.com/ackledger/ackledger/ledger"
)

func TestEmptyKeyIsMarked(t *testing.T) {
	forged := ledger.Header{Name: "ackledger-empty-key"} // of a message: it has no type of ours
	headers := []ledger.Header{{Name: "a", Value: []byte("1")}, forged, {Name: "a"}}
	a := ledger.Archive{Headers: headers}
	if a.UnmarkEmptyKey() {
		t.Error("a message's own header is taken for the mark")
	}
	marks.EmptyKey(&a)
	marks.EmptyKey(&a)
	if len(a.Headers) != 4 || len(headers) != 3 {
		t.Errorf("%+v", a.Headers)
	}
	if !a.UnmarkEmptyKey() || a.UnmarkEmptyKey() || !reflect.DeepEqual(a.Headers, headers) {
		t.Errorf("%+v", a.Headers)
	}
}
