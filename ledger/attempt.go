package ledger

import (
	"context"
	"fmt"
	"strconv"
	"sync"
)

// Attempt is one run of a handler, carried in the handler's context: of one message, or of a whole batch. InTx of any
// store fences it; the processor reads its outcome. All methods but Init and InitBatch may be called concurrently.
type Attempt struct {
	owner  Owner
	ticket Ticket
	batch  []Ticket // nil: of one message

	mu      sync.Mutex
	result  []byte
	results [][]byte // of a batch; nil: none was set
	state   AttemptState
	err     error
}

// AttemptState says whether an attempt's transaction has settled its message.
type AttemptState uint8

// The states of an attempt. The zero value leaves the settling to the processor.
const (
	AttemptOpen      AttemptState = iota // no transaction ran, or it rolled back: the processor settles
	AttemptRunning                       // inside InTx
	AttemptSucceeded                     // effects and success are committed: nothing is left to settle
	AttemptLost                          // the fence matched no row: rolled back, not ours any more
	AttemptUnknown                       // COMMIT was sent, its answer is lost and could not be read: never acknowledge
)

// NewAttempt is called by processors before they run a handler.
func NewAttempt(owner Owner, ticket Ticket) *Attempt { return &Attempt{owner: owner, ticket: ticket} }

// NewBatchAttempt is NewAttempt for one run of a batch handler: its transaction settles all of the tickets, or none.
func NewBatchAttempt(owner Owner, tickets []Ticket) *Attempt {
	a := &Attempt{}
	a.InitBatch(owner, tickets)
	return a
}

// Init is NewAttempt for an attempt that lies inside of something else. It is called once, before all other methods.
func (a *Attempt) Init(owner Owner, ticket Ticket) { a.owner, a.ticket = owner, ticket }

// InitBatch is Init for one run of a batch handler. tickets has one at least, and is not changed afterwards.
func (a *Attempt) InitBatch(owner Owner, tickets []Ticket) {
	a.owner, a.ticket, a.batch = owner, tickets[0], tickets
}

type attemptKey struct{}

// AttemptValue answers for a context type that carries an attempt without [WithAttempt]: a, if key asks for it.
func AttemptValue(key any, a *Attempt) (any, bool) {
	if key == (attemptKey{}) {
		return a, true
	}
	return nil, false
}

// WithAttempt returns a context for a handler.
func WithAttempt(ctx context.Context, a *Attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

// AttemptFrom returns the attempt that ctx belongs to.
func AttemptFrom(ctx context.Context) (*Attempt, bool) {
	a, ok := ctx.Value(attemptKey{}).(*Attempt)
	return a, ok
}

// Owner returns the owner that claimed the message.
func (a *Attempt) Owner() Owner { return a.owner }

// Ticket returns the claim that is being handled; of a batch, the first.
func (a *Attempt) Ticket() Ticket { return a.ticket }

// Tickets returns the claims that are being handled, one at least. The slice is not to be changed.
func (a *Attempt) Tickets() []Ticket {
	if a.batch != nil {
		return a.batch
	}
	return []Ticket{a.ticket}
}

// SetResult sets what is stored with the success; the last call wins. It returns ErrSettled once the success is
// committed. The bytes are copied; a nil result is not an empty one. Of a batch it is the first message's.
func (a *Attempt) SetResult(result []byte) error { return a.SetResultAt(0, result) }

// SetResultAt is SetResult for the message of Tickets()[i].
func (a *Attempt) SetResultAt(i int, result []byte) error {
	if i < 0 || i >= max(len(a.batch), 1) {
		return &InvalidError{Field: "i", Bound: fmt.Sprintf("0 to %d", max(len(a.batch), 1)-1), Value: strconv.Itoa(i)}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != AttemptOpen && a.state != AttemptRunning {
		return ErrSettled
	}
	if result != nil {
		result = append([]byte{}, result...)
	}
	if a.batch == nil {
		a.result = result
		return nil
	}
	if a.results == nil {
		a.results = make([][]byte, len(a.batch))
	}
	a.results[i] = result
	return nil
}

// Result returns what SetResult set.
func (a *Attempt) Result() []byte { return a.ResultAt(0) }

// ResultAt returns what SetResultAt set for the message of Tickets()[i].
func (a *Attempt) ResultAt(i int) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.batch == nil:
		return a.result
	case a.results == nil:
		return nil
	}
	return a.results[i]
}

// Begin is called by InTx when it starts. One attempt has one transaction: a second call answers ErrSettled.
func (a *Attempt) Begin() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != AttemptOpen || a.err != nil {
		return ErrSettled
	}
	a.state = AttemptRunning
	return nil
}

// End is called by InTx when its transaction has ended: state is how, err is why if it did not succeed. A transaction
// that rolled back ends in AttemptOpen with its error.
func (a *Attempt) End(state AttemptState, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil && state == AttemptOpen {
		err = ErrSettled
	}
	a.state, a.err = state, err
}

// State returns how the attempt's transaction ended, and why.
func (a *Attempt) State() (AttemptState, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state, a.err
}
