package ledger

import (
	"context"
	"time"
)

// MaxPast is how many earlier lives of one key a [Record] shows at most, the latest ones.
const MaxPast = 100

// PastKeeper is a ledger that keeps what messages ended with for longer than their rows. The stores of this module are. A message is
// recognised as long as its row is there; what is kept afterwards is for people alone, and no claim is answered from it.
type PastKeeper interface {
	// KeepPast says how long the results of a scope's messages are kept after their rows' windows: a second to [MaxWindow], or 0,
	// which ends it. What was said last holds, for all processes, and also for rows that are there already; what is kept already
	// stays for as long as was said then. A row that goes without a result leaves nothing. Errors: an [*InvalidError], one for which
	// [Unusable] is true, or an outage: it may be repeated. Any number of processes and goroutines may call it.
	KeepPast(ctx context.Context, scope string, keep time.Duration) error
}

// Past is how an earlier life of a key ended, whose row is gone: [Record.Past].
type Past struct {
	State    State // Succeeded or Failed
	Token    uint64
	Attempts int // those that failed and counted
	Crashes  int
	Result   []byte    // as it was stored, so sealed if it was; nil if WithoutBodies left it out
	Bytes    int       // how long a result is that [WithoutBodies] left out; zero: none was
	At       time.Time // first claim
	Expiry   time.Time // when its window was over
	Until    time.Time // how long it is kept
}
