package ranges

import (
	"testing"
	"time"

	"github.com/ackledger/ackledger/ledger"
)

// An owner that lives through many leader epochs forgets those that are over; what it holds, or may hold, it does not.
func TestForgetsLogsThatAreOver(t *testing.T) {
	now := time.Now()
	o := NewOwner(nil, ledger.DefaultLimits, new(Counts))
	old := now.Add(-forgetAfter - time.Second)
	var doubt Set
	doubt.Add(Span{3, 4})
	o.logs[Log{1}] = &held{used: old}
	o.logs[Log{2}] = &held{used: old, open: map[uint64]*open{1: {}}}
	o.logs[Log{3}] = &held{used: old, doubt: doubt}
	o.logs[Log{4}] = &held{used: now.Add(-time.Minute)}
	o.logs[Log{5}] = &held{used: now.Add(-forgetAfter)}
	o.forget(now)
	if _, ok := o.logs[Log{1}]; ok || len(o.logs) != 4 {
		t.Fatalf("%d logs are known, the one that is over among them: %v", len(o.logs), ok)
	}
}
