package ranges

import (
	"testing"

	"github.com/ackledger/ackledger/ledger"
)

// late identifies an entry when it is asked, once.
type late struct{ asked int }

func (l *late) Identify() (ledger.Fingerprint, []byte) {
	l.asked++
	return ledger.NewFingerprint([]byte("a"), []byte("b")), []byte("d")
}

// What an entry leaves out is filled in once, and what is there is left alone.
func TestComplete(t *testing.T) {
	l := &late{}
	e := ledger.Entry{Late: l}
	complete(&e)
	complete(&e)
	if l.asked != 1 || e.Fingerprint.IsZero() || string(e.Delivery) != "d" || e.Late != nil {
		t.Errorf("asked %d times: %+v", l.asked, e)
	}
}
