package ledger

import (
	"context"
	"sync"
)

// Attempt is one run of a handler, carried in the handler's context. InTx of any store fences it; the processor reads
// its outcome. All methods may be called concurrently.
type Attempt struct {
	owner  Owner
	ticket Ticket

	mu     sync.Mutex
	result []byte
	state  AttemptState
	err    error
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

type attemptKey struct{}

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

// Ticket returns the claim that is being handled.
func (a *Attempt) Ticket() Ticket { return a.ticket }

// SetResult sets what is stored with the success; the last call wins. It returns ErrSettled once the success is
// committed. The bytes are copied; a nil result is not an empty one.
func (a *Attempt) SetResult(result []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != AttemptOpen && a.state != AttemptRunning {
		return ErrSettled
	}
	if result == nil {
		a.result = nil
		return nil
	}
	a.result = append([]byte{}, result...)
	return nil
}

// Result returns what SetResult set.
func (a *Attempt) Result() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.result
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
