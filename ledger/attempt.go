package ledger

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
)

// Attempt is one run of a handler, carried in the handler's context: of one message, or of a whole batch. InTx of any
// store fences it; the processor reads its outcome. All methods but Init and InitBatch may be called concurrently.
type Attempt struct {
	owner Owner
	one   [1]Ticket // of a batch: the first
	batch *batched  // nil: of one message

	mu     sync.Mutex
	result []byte
	state  AttemptState
	over   bool // no transaction may begin any more, and no result be set
	ends   bool // the transaction's function has returned: nothing is published any more
	err    error
	rare   *rare // nil: nothing of it
}

// rare is what most attempts have nothing of.
type rare struct {
	before func() error     // a commit; nil: nothing
	steps  map[int]*stepper // by the index of their message

	outgoing []Outgoing // for the commit
	bytes    int        // of outgoing
}

// rarely is the attempt's rare, which is locked.
func (a *Attempt) rarely() *rare {
	if a.rare == nil {
		a.rare = &rare{steps: map[int]*stepper{}}
	}
	return a.rare
}

// batched is what an attempt has of a batch alone.
type batched struct {
	tickets []Ticket
	results [][]byte // nil: none was set; guarded by the attempt's lock
}

// AttemptState says whether an attempt's transaction has settled its message.
type AttemptState uint8

// The states of an attempt. The zero value leaves the settling to the processor.
const (
	AttemptOpen      AttemptState = iota // no transaction ran, or it rolled back: the processor settles
	AttemptRunning                       // inside InTx
	AttemptSucceeded                     // effects and success are committed: nothing is left to settle
	AttemptLost                          // rolled back: a message is not ours any more (of a batch: one at least)
	AttemptUnknown                       // COMMIT was sent, its answer is lost and could not be read: never acknowledge
)

// NewAttempt is called by processors before they run a handler.
func NewAttempt(owner Owner, ticket Ticket) *Attempt {
	return &Attempt{owner: owner, one: [1]Ticket{ticket}}
}

// NewBatchAttempt is NewAttempt for one run of a batch handler: its transaction settles all of the tickets, or none.
func NewBatchAttempt(owner Owner, tickets []Ticket) *Attempt {
	a := &Attempt{}
	a.InitBatch(owner, tickets)
	return a
}

// Init is NewAttempt for an attempt that lies inside of something else. It is called once, before all other methods.
func (a *Attempt) Init(owner Owner, ticket Ticket) { a.owner, a.one[0] = owner, ticket }

// InitBatch is Init for one run of a batch handler. tickets are of distinct messages, one at least (Begin refuses others),
// and are not changed afterwards.
func (a *Attempt) InitBatch(owner Owner, tickets []Ticket) {
	a.owner, a.batch = owner, &batched{tickets: tickets}
	copy(a.one[:], tickets)
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
func (a *Attempt) Ticket() Ticket { return a.one[0] }

// Tickets returns the claims that are being handled, of a batch in its order. The slice is not to be changed.
func (a *Attempt) Tickets() []Ticket {
	if a.batch != nil {
		return a.batch.tickets
	}
	return a.one[:]
}

// SetResult sets what is stored with the success; the last call wins. It returns ErrSettled once the success is
// committed, and after Conclude. The bytes are copied; a nil result is not an empty one. A batch, however small, has a result for each
// message and gets an [*InvalidError]: see [Attempt.SetResultAt].
func (a *Attempt) SetResult(result []byte) error {
	if a.batch != nil {
		return &InvalidError{Field: "SetResult", Bound: "for one message of a batch", Value: "for all of them"}
	}
	return a.SetResultAt(0, result)
}

// SetResultAt is SetResult for the message of Tickets()[i]. An index out of range gets an [*InvalidError].
func (a *Attempt) SetResultAt(i int, result []byte) error {
	if n := len(a.Tickets()); i < 0 || i >= n {
		return &InvalidError{Field: "SetResultAt: the index", Bound: fmt.Sprintf("0 to %d", n-1), Value: strconv.Itoa(i)}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over || a.state != AttemptOpen && a.state != AttemptRunning {
		return ErrSettled
	}
	result = bytes.Clone(result)
	if a.batch == nil {
		a.result = result
		return nil
	}
	if a.batch.results == nil {
		a.batch.results = make([][]byte, len(a.batch.tickets))
	}
	a.batch.results[i] = result
	return nil
}

// Result returns what SetResult set; nil for a batch.
func (a *Attempt) Result() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.result
}

// ResultAt returns what was set for the message of Tickets()[i]; nil if nothing was, or the index is out of range.
func (a *Attempt) ResultAt(i int) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case i == 0 && a.batch == nil:
		return a.result
	case a.batch == nil || i < 0 || i >= len(a.batch.results):
		return nil
	}
	return a.batch.results[i]
}

// Begin is called by InTx when it starts. One attempt has one transaction: a second call answers ErrSettled, and so does one
// that comes after Conclude. A batch that no fence can stand for, of no message or with one twice, gets an [*InvalidError].
func (a *Attempt) Begin() error {
	if a.batch != nil {
		if err := checkBatch(a.batch.tickets); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != AttemptOpen || a.err != nil || a.over {
		return ErrSettled
	}
	a.state = AttemptRunning
	return nil
}

// BeforeCommit has f called when the attempt's transaction is about to be fenced: its function has returned nil. f may set results.
// Its error rolls the transaction back, and is InTx's. For processors that know the result only then; it is called before the
// handler runs. Where there is no transaction, f is not called.
func (a *Attempt) BeforeCommit(f func() error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rarely().before = f
}

// Commits is called by InTx once the function has returned nil, before the fence: an error is to roll back.
func (a *Attempt) Commits() error {
	a.mu.Lock()
	r := a.rare
	a.mu.Unlock()
	if r == nil || r.before == nil {
		return nil
	}
	return r.before()
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

// Conclude is State for who settles the message, once its handler has returned: no transaction begins from then on, and no
// result is set. A transaction that did begin would meet the settlement on its way, and both would say how the message ended.
func (a *Attempt) Conclude() (AttemptState, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	return a.state, a.err
}

func checkBatch(tickets []Ticket) error {
	seen := make(map[[KeySize]byte]struct{}, len(tickets))
	for _, t := range tickets {
		seen[t.Sum()] = struct{}{}
	}
	if len(tickets) == 0 || len(seen) != len(tickets) {
		return &InvalidError{Field: "Attempt.Tickets", Bound: "at least one, of distinct messages",
			Value: fmt.Sprintf("%d tickets of %d messages", len(tickets), len(seen))}
	}
	return nil
}
