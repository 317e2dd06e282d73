package memory

import (
	"context"

	"github.com/ackledger/ackledger/ledger"
)

// Op names a call of the contract.
type Op string

// The calls.
const (
	Join   Op = "join"
	Claim  Op = "claim"
	Settle Op = "settle"
	Beat   Op = "beat"
	Leave  Op = "leave"
	Count  Op = "count"
	Sweep  Op = "sweep" // each of its transactions
)

// Fault decides the fate of one call: nil lets it be. It may block, to play a slow ledger; ctx is the call's. It is
// called without the ledger's lock, by several goroutines at once.
type Fault func(ctx context.Context, op Op) error

// FailBefore makes calls fail without being carried out, with what fault returns: a ledger that is down. Wrap the error
// with [ledger.MarkUnknown] to play a request of which the caller cannot know. Nil: no faults.
func (l *Ledger) FailBefore(fault Fault) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	l.store.before = fault
}

// FailAfter makes calls fail after they were carried out, with what fault returns, marked with [ledger.MarkUnknown]: an
// answer that was lost on the wire. Nil: no faults.
func (l *Ledger) FailAfter(fault Fault) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	l.store.after = fault
}

// do carries out one call under the lock, between its faults. An operator's has none, and no name.
func (s *store) do(ctx context.Context, op Op, call func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	before, after := s.before, s.after
	if before != nil && op != "" {
		s.mu.Unlock()
		if err := before(ctx, op); err != nil {
			return err
		}
		s.mu.Lock()
	}
	err := call()
	s.mu.Unlock()
	if err == nil && after != nil && op != "" {
		err = ledger.MarkUnknown(after(ctx, op))
	}
	return err
}
