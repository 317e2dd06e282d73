package postgres

import (
	"reflect"
	"testing"

	"github.com/ackledger/ackledger/internal/acts"
	"github.com/ackledger/ackledger/ledger"
)

// TestStoredPosition: a position comes back as it was, whether its delivery spells it or not, also after a reopening gave
// that another name; and as versions before 5 wrote it.
func TestStoredPosition(t *testing.T) {
	t.Parallel()
	long := "cluster/0b5a1f0e-6f6e-4a37-9d7c-0d9a4c0f8a11/3"
	at := ledger.Position{Log: long, Epoch: 4, Offset: 70, Prev: 69}
	for name, c := range map[string]struct {
		p        ledger.Position
		delivery string
		stored   int // bytes at most
	}{
		"spelled":            {at, long + "/4/70", 2},
		"the first":          {ledger.Position{Log: long, Prev: -1}, long + "/0/0", 2},
		"behind a gap":       {ledger.Position{Log: long, Epoch: 4, Offset: 70, Prev: 12}, long + "/4/70", 11},
		"another's delivery": {at, "cluster/other/4/70", 200},
		"no name":            {ledger.Position{Offset: 7, Prev: 6}, "x", 200},
		"odd bytes":          {ledger.Position{Log: "\xff\x00/", Epoch: -1, Offset: 1 << 62, Prev: -5}, "\xff\x00//-1/4611686018427387904", 30},
	} {
		b := encodePosition(&c.p, []byte(c.delivery))
		if len(b) > c.stored {
			t.Errorf("%s: %d bytes, want %d at most: %s", name, len(b), c.stored, b)
		}
		for _, delivery := range []string{c.delivery, string(acts.ReopenedDelivery(5, acts.ReopenedDelivery(3, []byte(c.delivery))))} {
			got, err := decodePosition(b, []byte(delivery))
			if err != nil || !reflect.DeepEqual(*got, c.p) {
				t.Errorf("%s, %q: %s is read as %+v, %v", name, delivery, b, got, err)
			}
		}
	}
	got, err := decodePosition([]byte(`{"log":"bG9n","epoch":1,"offset":2,"prev":0}`), []byte("log/9/9"))
	if want := (ledger.Position{Log: "log", Epoch: 1, Offset: 2}); err != nil || *got != want {
		t.Errorf("as version 4 wrote it: %+v, %v", got, err)
	}
	if got, err := decodePosition([]byte(`{}`), []byte("topic-1")); err == nil {
		t.Errorf("a delivery that spells nothing: %+v", got)
	}
}
